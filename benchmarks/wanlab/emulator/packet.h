// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "buffer_pool.h"

// What a TUN device hands over with IFF_VNET_HDR: a virtio-net header, then an IP packet. With TSO
// a packet is a super-packet: one IP and TCP header before the payload of up to 64 KB, which stands
// for as many segments as its size says. Here they are taken apart where segments fare differently.
namespace emlio::wanlab {

// struct virtio_net_hdr (virtio specification, 5.1.6), in the host's byte order; <linux/
// virtio_net.h> does not compile as C++.
struct VirtioNetHeader {
  uint8_t flags;
  uint8_t gso_type;
  uint16_t header_bytes;
  uint16_t segment_bytes;
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
static_assert(sizeof(VirtioNetHeader) == 10);

// How a frame divides into segments.
struct PacketShape {
  // Of a frame that is no super-packet, or none we know how to divide: one segment.
  int segments = 1;
  uint32_t ip_bytes = 0;       // the whole IP packet
  uint32_t header_bytes = 0;   // IP and TCP headers, which every segment has; 0 when indivisible
  uint32_t payload_bytes = 0;  // of a segment that is not the last one

  // The IP packet that `segment` makes, without framing.
  uint32_t SegmentBytes(int segment) const;
};

// What Ethernet adds to a packet: preamble, header, checksum, gap between frames.
inline constexpr uint32_t kFramingBytes = 8 + 14 + 4 + 12;

// The shape of a frame of at least sizeof(VirtioNetHeader) bytes. Never fails: what is malformed or
// not TCP over IPv4 is one segment.
PacketShape ShapeOf(std::span<const uint8_t> frame);

// A part of a frame: consecutive segments, with headers of their own when it is not the whole. The
// payload stays where the frame was read to.
struct Piece {
  BufferRef headers;  // virtio-net, IP and TCP header; empty when `body` is the whole frame
  uint32_t headers_bytes = 0;
  BufferRef body;
  uint32_t body_offset = 0;
  uint32_t body_bytes = 0;
};

// Segments [first, first + count) of the frame of `frame_bytes` in `frame`. The headers are what a
// network interface would make of them: length, identification and checksum of IP, sequence number
// and flags of TCP, checksum of the pseudo-header.
// REQUIRES: `shape` is ShapeOf(frame), the range lies within it and is not empty.
Piece MakePiece(const BufferRef& frame, uint32_t frame_bytes, const PacketShape& shape, int first,
                int count, BufferPool* pool);

}  // namespace emlio::wanlab

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "packet.h"

#include <algorithm>
#include <cstring>

namespace emlio::wanlab {
namespace {

constexpr uint8_t kGsoNone = 0;
constexpr uint8_t kGsoTcp4 = 1;
constexpr uint8_t kGsoEcn = 0x80;
constexpr size_t kMinIpHeader = 20;
constexpr size_t kMinTcpHeader = 20;
constexpr uint8_t kTcpProtocol = 6;
constexpr uint8_t kFin = 0x01;
constexpr uint8_t kPsh = 0x08;
constexpr uint8_t kCwr = 0x80;

uint16_t LoadBe16(const uint8_t* at) { return static_cast<uint16_t>(at[0] << 8 | at[1]); }
uint32_t LoadBe32(const uint8_t* at) {
  return static_cast<uint32_t>(LoadBe16(at)) << 16 | LoadBe16(at + 2);
}
void StoreBe16(uint16_t value, uint8_t* at) {
  at[0] = static_cast<uint8_t>(value >> 8);
  at[1] = static_cast<uint8_t>(value);
}
void StoreBe32(uint32_t value, uint8_t* at) {
  StoreBe16(static_cast<uint16_t>(value >> 16), at);
  StoreBe16(static_cast<uint16_t>(value), at + 2);
}

// The Internet checksum's sum (RFC 1071) of an even number of bytes, not yet inverted.
uint32_t SumWords(const uint8_t* at, size_t bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes; i += 2) sum += LoadBe16(at + i);
  return sum;
}
uint16_t Fold(uint32_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

}  // namespace

uint32_t PacketShape::SegmentBytes(int segment) const {
  if (segments == 1) return ip_bytes;
  if (segment + 1 < segments) return header_bytes + payload_bytes;
  return ip_bytes - static_cast<uint32_t>(segments - 1) * payload_bytes;
}

PacketShape ShapeOf(std::span<const uint8_t> frame) {
  VirtioNetHeader virtio;
  std::memcpy(&virtio, frame.data(), sizeof(virtio));
  const std::span<const uint8_t> ip = frame.subspan(sizeof(virtio));
  PacketShape shape;
  shape.ip_bytes = static_cast<uint32_t>(ip.size());
  if ((virtio.gso_type & ~kGsoEcn) != kGsoTcp4 || virtio.segment_bytes == 0) return shape;
  if (ip.size() < kMinIpHeader + kMinTcpHeader || ip[0] >> 4 != 4 || ip[9] != kTcpProtocol) {
    return shape;
  }
  const size_t ip_header = (ip[0] & 0x0f) * 4u;
  if (ip_header < kMinIpHeader || ip_header + kMinTcpHeader > ip.size()) return shape;
  const size_t headers = ip_header + (ip[ip_header + 12] >> 4) * 4u;
  if (headers < ip_header + kMinTcpHeader || headers >= ip.size()) return shape;
  const size_t payload = ip.size() - headers;
  shape.segments = static_cast<int>((payload + virtio.segment_bytes - 1) / virtio.segment_bytes);
  shape.header_bytes = static_cast<uint32_t>(headers);
  shape.payload_bytes = virtio.segment_bytes;
  return shape;
}

Piece MakePiece(const BufferRef& frame, uint32_t frame_bytes, const PacketShape& shape, int first,
                int count, BufferPool* pool) {
  Piece piece;
  piece.body = frame;
  if (count == shape.segments) {
    piece.body_bytes = frame_bytes;
    return piece;
  }
  constexpr uint32_t kVirtio = sizeof(VirtioNetHeader);
  const bool has_last = first + count == shape.segments;
  const uint32_t payload_at = static_cast<uint32_t>(first) * shape.payload_bytes;
  const uint32_t payload_all = shape.ip_bytes - shape.header_bytes;
  piece.body_offset = kVirtio + shape.header_bytes + payload_at;
  piece.body_bytes =
      has_last ? payload_all - payload_at : static_cast<uint32_t>(count) * shape.payload_bytes;

  piece.headers = pool->Get(kVirtio + shape.header_bytes);
  piece.headers_bytes = kVirtio + shape.header_bytes;
  uint8_t* to = piece.headers.data();
  std::memcpy(to, frame.data(), piece.headers_bytes);
  VirtioNetHeader virtio;
  std::memcpy(&virtio, to, kVirtio);
  if (count == 1) {
    virtio.gso_type = kGsoNone;
    virtio.segment_bytes = 0;
  }
  std::memcpy(to, &virtio, kVirtio);

  uint8_t* ip = to + kVirtio;
  const size_t ip_header = (ip[0] & 0x0f) * 4u;
  uint8_t* tcp = ip + ip_header;
  const uint32_t tcp_bytes =
      shape.header_bytes - static_cast<uint32_t>(ip_header) + piece.body_bytes;
  StoreBe16(static_cast<uint16_t>(shape.header_bytes + piece.body_bytes), ip + 2);
  StoreBe16(static_cast<uint16_t>(LoadBe16(ip + 4) + first), ip + 4);
  StoreBe16(0, ip + 10);
  StoreBe16(static_cast<uint16_t>(~Fold(SumWords(ip, ip_header))), ip + 10);

  StoreBe32(LoadBe32(tcp + 4) + payload_at, tcp + 4);
  if (!has_last) tcp[13] &= static_cast<uint8_t>(~(kFin | kPsh));
  if (first > 0) tcp[13] &= static_cast<uint8_t>(~kCwr);
  // With a checksum left to the hardware, the field holds the pseudo-header's sum: the addresses,
  // the protocol and the length.
  StoreBe16(Fold(SumWords(ip + 12, 8) + kTcpProtocol + tcp_bytes), tcp + 16);
  return piece;
}

}  // namespace emlio::wanlab

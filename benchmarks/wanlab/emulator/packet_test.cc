// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "packet.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "packet_testing.h"

namespace emlio::wanlab {
namespace {

TEST(PacketTest, ASuperPacketIsAsManySegmentsAsItsSizeSays) {
  const std::vector<uint8_t> frame = TcpFrame({.payload_bytes = 3500, .segment_bytes = 1000});
  const PacketShape shape = ShapeOf(frame);
  EXPECT_EQ(shape.segments, 4);
  EXPECT_EQ(shape.header_bytes, 20 + 32);
  EXPECT_EQ(shape.SegmentBytes(0), 1052);
  EXPECT_EQ(shape.SegmentBytes(2), 1052);
  EXPECT_EQ(shape.SegmentBytes(3), 552);
}

TEST(PacketTest, AnOrdinaryPacketIsOneSegment) {
  const std::vector<uint8_t> frame = TcpFrame({.payload_bytes = 900, .segment_bytes = 0});
  const PacketShape shape = ShapeOf(frame);
  EXPECT_EQ(shape.segments, 1);
  EXPECT_EQ(shape.SegmentBytes(0), 952);
}

TEST(PacketTest, WhatIsNotTcpOverIpv4IsOneSegment) {
  std::vector<uint8_t> udp = TcpFrame({.payload_bytes = 3500, .segment_bytes = 1000});
  udp[10 + 9] = 17;
  EXPECT_EQ(ShapeOf(udp).segments, 1);
  std::vector<uint8_t> six = TcpFrame({.payload_bytes = 3500, .segment_bytes = 1000});
  six[10] = 0x60;
  EXPECT_EQ(ShapeOf(six).segments, 1);
}

TEST(PacketTest, MalformedHeadersAreOneSegment) {
  const std::vector<uint8_t> frame = TcpFrame({.payload_bytes = 3500, .segment_bytes = 1000});
  for (size_t size = sizeof(VirtioNetHeader); size <= 10 + 52; ++size) {
    const PacketShape shape = ShapeOf(std::span(frame).first(size));
    EXPECT_EQ(shape.segments, 1) << size;
    EXPECT_EQ(shape.SegmentBytes(0), size - 10);
  }
  std::vector<uint8_t> short_ip = frame;
  short_ip[10] = 0x44;
  EXPECT_EQ(ShapeOf(short_ip).segments, 1);
  std::vector<uint8_t> short_tcp = frame;
  short_tcp[10 + 20 + 12] = 0x10;
  EXPECT_EQ(ShapeOf(short_tcp).segments, 1);
}

TEST(PacketTest, TheWholeIsNotCopied) {
  BufferPool pool;
  const std::vector<uint8_t> bytes = TcpFrame({.payload_bytes = 3500, .segment_bytes = 1000});
  const BufferRef frame = InBuffer(bytes, &pool);
  const Piece piece =
      MakePiece(frame, static_cast<uint32_t>(bytes.size()), ShapeOf(bytes), 0, 4, &pool);
  EXPECT_FALSE(piece.headers);
  EXPECT_EQ(piece.body.data(), frame.data());
  EXPECT_EQ(piece.body_bytes, bytes.size());
}

TEST(PacketTest, PiecesArePacketsThatFitTogether) {
  BufferPool pool;
  const TcpFields fields{.payload_bytes = 3500,
                         .segment_bytes = 1000,
                         .sequence = 0xfffffc00,  // wraps within the packet
                         .flags = 0x80 | 0x10 | 0x08 | 0x01};
  const std::vector<uint8_t> bytes = TcpFrame(fields);
  const BufferRef frame = InBuffer(bytes, &pool);
  const PacketShape shape = ShapeOf(bytes);
  const auto make = [&](int first, int count) {
    return Bytes(MakePiece(frame, static_cast<uint32_t>(bytes.size()), shape, first, count, &pool));
  };

  // Twins made by hand, with the payload that belongs to them.
  TcpFields twin = fields;
  twin.payload_bytes = 2000;
  twin.flags = 0x80 | 0x10;  // the last segment alone has PSH and FIN
  EXPECT_EQ(make(0, 2), TcpFrame(twin));
  twin = fields;
  twin.payload_bytes = 1000;
  twin.segment_bytes = 0;
  twin.sequence += 2000;
  twin.identification += 2;
  twin.first_payload_byte += 2000;
  twin.flags = 0x10;  // CWR belongs to the first
  EXPECT_EQ(make(2, 1), TcpFrame(twin));
  twin.sequence += 1000;
  twin.identification += 1;
  twin.first_payload_byte += 1000;
  twin.payload_bytes = 500;
  twin.flags = 0x10 | 0x08 | 0x01;
  EXPECT_EQ(make(3, 1), TcpFrame(twin));
}

TEST(PacketTest, APieceKeepsItsBufferUntilItIsGone) {
  BufferPool pool;
  const std::vector<uint8_t> bytes = TcpFrame({.payload_bytes = 3500, .segment_bytes = 1000});
  BufferRef frame = InBuffer(bytes, &pool);
  const uint8_t* const data = frame.data();
  Piece piece = MakePiece(frame, static_cast<uint32_t>(bytes.size()), ShapeOf(bytes), 1, 2, &pool);
  frame.Reset();
  EXPECT_NE(pool.Get(bytes.size()).data(), data);
  piece = Piece();
  EXPECT_EQ(pool.Get(bytes.size()).data(), data);
}

TEST(BufferPoolTest, GivesTheSmallestSizeThatFits) {
  BufferPool pool;
  for (const size_t size : BufferPool::kClassBytes) {
    const BufferRef buffer = pool.Get(size);
    std::memset(buffer.data(), 1, size);
  }
  EXPECT_EQ(pool.reserved_bytes(), size_t{3} << 21);
  std::vector<BufferRef> many;
  for (int i = 0; i < 100; ++i) many.push_back(pool.Get(BufferPool::kLargestBytes));
  many.clear();
  const size_t reserved = pool.reserved_bytes();
  for (int i = 0; i < 100; ++i) many.push_back(pool.Get(BufferPool::kLargestBytes));
  EXPECT_EQ(pool.reserved_bytes(), reserved);
}

}  // namespace
}  // namespace emlio::wanlab

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "packet.h"

// TCP packets for tests, made field by field and independently of packet.cc.
namespace emlio::wanlab {

struct TcpFields {
  uint32_t payload_bytes = 0;
  uint16_t segment_bytes = 0;  // 0: no super-packet
  uint32_t sequence = 1000;
  uint16_t identification = 0xffff;
  uint8_t flags = 0x10;
  uint32_t first_payload_byte = 0;  // the payload counts up from here
};

inline uint16_t InternetChecksum(const std::vector<uint8_t>& bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) sum += bytes[i] * 256u + bytes[i + 1];
  while (sum > 0xffff) sum = sum % 0x10000 + sum / 0x10000;
  return static_cast<uint16_t>(sum);
}

// Virtio-net header, IPv4 header of 20 bytes, TCP header of 32 bytes, payload. The TCP checksum is
// left to the hardware: the sum of the pseudo-header.
inline std::vector<uint8_t> TcpFrame(const TcpFields& fields) {
  constexpr uint16_t kIp = 20;
  constexpr uint16_t kTcp = 32;
  std::vector<uint8_t> frame;
  const auto add16 = [&](uint32_t value) {
    frame.push_back(static_cast<uint8_t>(value >> 8));
    frame.push_back(static_cast<uint8_t>(value));
  };
  const auto add_host16 = [&](uint16_t value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    frame.insert(frame.end(), bytes, bytes + 2);
  };
  frame.push_back(1);  // VIRTIO_NET_HDR_F_NEEDS_CSUM
  frame.push_back(fields.segment_bytes > 0 ? 1 : 0);
  add_host16(kIp + kTcp);
  add_host16(fields.segment_bytes);
  add_host16(kIp);
  add_host16(16);

  const uint32_t tcp_bytes = kTcp + fields.payload_bytes;
  frame.push_back(0x45);
  frame.push_back(0);
  add16(kIp + tcp_bytes);
  add16(fields.identification);
  add16(0x4000);
  frame.push_back(64);
  frame.push_back(6);
  add16(0);
  for (const uint8_t byte : {10, 77, 0, 1, 10, 77, 0, 2}) frame.push_back(byte);
  const uint16_t sum = InternetChecksum({frame.begin() + 10, frame.end()});
  frame[20] = static_cast<uint8_t>(~sum >> 8);
  frame[21] = static_cast<uint8_t>(~sum);

  const std::vector<uint8_t> pseudo = {10,
                                       77,
                                       0,
                                       1,
                                       10,
                                       77,
                                       0,
                                       2,
                                       0,
                                       6,
                                       static_cast<uint8_t>(tcp_bytes >> 8),
                                       static_cast<uint8_t>(tcp_bytes)};
  add16(5201);
  add16(40000);
  add16(fields.sequence >> 16);
  add16(fields.sequence);
  add16(0x1234);
  add16(0x5678);
  frame.push_back(kTcp / 4 << 4);
  frame.push_back(fields.flags);
  add16(500);
  add16(InternetChecksum(pseudo));
  add16(0);
  frame.insert(frame.end(), kTcp - 20, 1);  // options: no-operation
  for (uint32_t i = 0; i < fields.payload_bytes; ++i) {
    frame.push_back(static_cast<uint8_t>((fields.first_payload_byte + i) % 251));
  }
  return frame;
}

inline BufferRef InBuffer(const std::vector<uint8_t>& bytes, BufferPool* pool) {
  BufferRef buffer = pool->Get(bytes.size());
  std::copy(bytes.begin(), bytes.end(), buffer.data());
  return buffer;
}

// What would be written to the device.
inline std::vector<uint8_t> Bytes(const Piece& piece) {
  std::vector<uint8_t> bytes;
  if (piece.headers) {
    bytes.assign(piece.headers.data(), piece.headers.data() + piece.headers_bytes);
  }
  const uint8_t* body = piece.body.data() + piece.body_offset;
  bytes.insert(bytes.end(), body, body + piece.body_bytes);
  return bytes;
}

}  // namespace emlio::wanlab

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/tcp_link.h"

#include <linux/tcp.h>  // and not netinet/tcp.h, whose tcp_info is that of old kernels
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace emlio::transport {
namespace {

// Enough for the next chunk to be gathered meanwhile.
constexpr int kUnsentBytes = 1 << 20;
constexpr int kTcpRtoMaxMs = 44;  // TCP_RTO_MAX_MS of linux/tcp.h, which older headers lack
constexpr int kRetryMs = 2000;
constexpr int kKeepaliveIdleSeconds = 60;
constexpr int kKeepaliveIntervalSeconds = 10;
constexpr int kKeepaliveProbes = 3;

void SetTcp(int fd, int option, int value) {
  (void)::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value));
}

}  // namespace

std::optional<LinkState> ReadLinkState(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  // Kernels before 4.9 do not say what limits a connection.
  if (size < offsetof(tcp_info, tcpi_sndbuf_limited) + sizeof(info.tcpi_sndbuf_limited)) {
    return std::nullopt;
  }
  LinkState state;
  state.round_trip_us = info.tcpi_rtt;
  if (info.tcpi_min_rtt != std::numeric_limits<uint32_t>::max()) {  // there was none yet
    state.min_round_trip_us = info.tcpi_min_rtt;
  }
  state.acked_bytes = info.tcpi_bytes_acked;
  state.busy_us = static_cast<int64_t>(info.tcpi_busy_time);
  state.window_limited_us =
      static_cast<int64_t>(info.tcpi_rwnd_limited) + static_cast<int64_t>(info.tcpi_sndbuf_limited);
  return state;
}

void PrepareToSend(int fd) {
  SetTcp(fd, TCP_NOTSENT_LOWAT, kUnsentBytes);
  SetTcp(fd, kTcpRtoMaxMs, kRetryMs);
}

void PrepareToKeep(int fd) {
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  SetTcp(fd, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  SetTcp(fd, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  SetTcp(fd, TCP_KEEPCNT, kKeepaliveProbes);
  SetTcp(fd, TCP_NODELAY, on);
}

}  // namespace emlio::transport

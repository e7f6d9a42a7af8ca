// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/status.h"

// Addresses: parsed and resolved by ourselves, since libzmq tries only the first address of a name.
namespace emlio::transport {

struct HostPort {
  std::string host;  // without brackets; "*" for every interface
  uint16_t port = 0;
};

// "name:5555", "127.0.0.1:0", "[::1]:5555", "*:5555". kInvalidArgument otherwise.
Result<HostPort> ParseHostPort(std::string_view text);

// The same after "tcp://"; a port of 0 or the host "*" cannot be dialled.
Result<HostPort> ParseDialEndpoint(std::string_view text);

// Whether a bind address can be reached from this host only. Names other than localhost are not
// trusted: what they resolve to is not ours to decide.
bool IsLoopback(const std::string& bind);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

struct NumericAddress {
  std::string endpoint;  // "tcp://127.0.0.1:5555", "tcp://[::1]:5555"
  bool ipv6 = false;
  SocketAddress address;
};

// How an address is written: "tcp://127.0.0.1:5555", "tcp://[::1]:5555".
std::string NumericEndpoint(const sockaddr* address, socklen_t size);

enum class Lookup {
  kNumericOnly,  // never waits; kNotFound for a name
  kNames,        // may wait for name servers
};

// All addresses of the host, in the system's order of preference, without duplicates. kNotFound
// when the name does not resolve.
Result<std::vector<NumericAddress>> Resolve(const HostPort& address, Lookup lookup);

}  // namespace emlio::transport

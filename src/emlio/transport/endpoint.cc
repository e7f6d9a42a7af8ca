// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/transport/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace emlio::transport {
namespace {

constexpr std::string_view kScheme = "tcp://";

Status BadAddress(std::string_view text, std::string_view why) {
  return InvalidArgument(fmt::format(
      "\"{}\" is not an address: {}; write host:port, 127.0.0.1:5555 or [::1]:5555", text, why));
}

}  // namespace

Result<HostPort> ParseHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return BadAddress(text, "the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return BadAddress(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) return BadAddress(text, "the host is missing");
  if (host.find_first_of(std::string_view("[]/ \t\n\0", 7)) != std::string_view::npos) {
    return BadAddress(text, "the host has a character that no host has");
  }
  HostPort address{std::string(host), 0};
  const auto [end, error] =
      std::from_chars(port.data(), port.data() + port.size(), address.port, 10);
  if (error != std::errc() || end != port.data() + port.size()) {
    return BadAddress(text, "the port must be a number from 0 to 65535");
  }
  return address;
}

Result<HostPort> ParseDialEndpoint(std::string_view text) {
  if (!text.starts_with(kScheme)) return BadAddress(text, "it must begin with tcp://");
  Result<HostPort> address = ParseHostPort(text.substr(kScheme.size()));
  if (!address.ok()) return address;
  if (address->port == 0) return BadAddress(text, "port 0 cannot be dialled");
  if (address->host == "*") return BadAddress(text, "\"*\" cannot be dialled");
  return address;
}

bool IsLoopback(const std::string& bind) {
  const std::string host = bind.substr(0, bind.rfind(':'));
  in_addr ipv4;
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return (ntohl(ipv4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "[::1]";
}

std::string NumericEndpoint(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (::getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  return address->sa_family == AF_INET6 ? fmt::format("tcp://[{}]:{}", host, port)
                                        : fmt::format("tcp://{}:{}", host, port);
}

Result<std::vector<NumericAddress>> Resolve(const HostPort& address, Lookup lookup) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = lookup == Lookup::kNumericOnly ? AI_NUMERICHOST : 0;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    return NotFound(fmt::format("host name \"{}\" does not resolve: {}", address.host,
                                error == EAI_SYSTEM ? ErrnoStatus(errno, "getaddrinfo").message()
                                                    : std::string(::gai_strerror(error))));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  std::vector<NumericAddress> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const bool ipv6 = entry->ai_family == AF_INET6;
    if (!ipv6 && entry->ai_family != AF_INET) continue;
    NumericAddress one;
    one.ipv6 = ipv6;
    std::memcpy(&one.address.storage, entry->ai_addr, entry->ai_addrlen);
    one.address.size = entry->ai_addrlen;
    const in_port_t port = htons(address.port);
    if (ipv6) {
      reinterpret_cast<sockaddr_in6*>(&one.address.storage)->sin6_port = port;
    } else {
      reinterpret_cast<sockaddr_in*>(&one.address.storage)->sin_port = port;
    }
    one.endpoint =
        NumericEndpoint(reinterpret_cast<const sockaddr*>(&one.address.storage), one.address.size);
    if (one.endpoint.empty()) continue;
    const bool known = std::any_of(found.begin(), found.end(), [&](const NumericAddress& other) {
      return other.endpoint == one.endpoint;
    });
    if (!known) found.push_back(std::move(one));
  }
  if (found.empty()) {
    return NotFound(fmt::format("host name \"{}\" has no IPv4 or IPv6 address", address.host));
  }
  return found;
}

}  // namespace emlio::transport

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

// Plain TCP for the transport tests: what ZeroMQ would not send, and a relay that can cut a
// connection in the two ways in which TCP ends.
namespace emlio::transport::testing {

// Owns a descriptor. Every call gives up after a while, so that a test fails instead of hanging.
class TcpSocket {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int fd) : fd_(fd) {}
  TcpSocket(TcpSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~TcpSocket() { Close(); }

  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  static TcpSocket ListenOnLoopback(int backlog = 64) {
    TcpSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(0);
    if (::bind(socket.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(socket.fd_, backlog) != 0) {
      socket.Close();
    }
    return socket;
  }
  // Not valid() when the connection fails.
  static TcpSocket ConnectToLoopback(uint16_t port) {
    TcpSocket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(port);
    if (::connect(socket.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      socket.Close();
    }
    return socket;
  }

  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port()); }
  TcpSocket Accept() const {
    pollfd poll_fd{fd_, POLLIN, 0};
    if (::poll(&poll_fd, 1, 60'000) <= 0) return TcpSocket();
    return TcpSocket(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  }
  bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Exactly that many bytes, or what came before the end.
  std::string Receive(size_t size) const {
    std::string bytes;
    while (bytes.size() < size) {
      pollfd poll_fd{fd_, POLLIN, 0};
      if (::poll(&poll_fd, 1, 60'000) <= 0) break;
      char chunk[4096];
      const ssize_t got = ::recv(fd_, chunk, std::min(sizeof(chunk), size - bytes.size()), 0);
      if (got <= 0) break;
      bytes.append(chunk, static_cast<size_t>(got));
    }
    return bytes;
  }
  // Whether the other side ended the connection.
  bool AtEnd() const {
    pollfd poll_fd{fd_, POLLIN, 0};
    if (::poll(&poll_fd, 1, 60'000) <= 0) return false;
    char byte = 0;
    return ::recv(fd_, &byte, 1, 0) <= 0;
  }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // An RST instead of a FIN.
  void Reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }

 private:
  int fd_ = -1;
};

// Forwards one connection to a port, both ways, until it is told to cut it.
class TcpRelay {
 public:
  enum class Cut { kFin, kRst };

  explicit TcpRelay(uint16_t port)
      : door_(TcpSocket::ListenOnLoopback()),
        thread_([this, port](std::stop_token stop) { Run(port, stop); }) {}
  ~TcpRelay() { thread_.request_stop(); }

  std::string endpoint() const { return door_.endpoint(); }
  // Both halves end; returns when they have.
  void CutNow(Cut cut) {
    cut_ = cut;
    thread_.request_stop();
    thread_.join();
  }

 private:
  void Run(uint16_t port, const std::stop_token& stop) {
    TcpSocket client;
    while (!client.valid()) {
      if (stop.stop_requested()) return;
      pollfd waiting{door_.fd(), POLLIN, 0};
      if (::poll(&waiting, 1, 5) > 0) client = door_.Accept();
    }
    TcpSocket server = TcpSocket::ConnectToLoopback(port);
    bool going = server.valid();
    while (going && !stop.stop_requested()) {
      pollfd fds[] = {{client.fd(), POLLIN, 0}, {server.fd(), POLLIN, 0}};
      if (::poll(fds, 2, 5) <= 0) continue;
      if (fds[0].revents != 0) going = going && Forward(client, server);
      if (fds[1].revents != 0) going = going && Forward(server, client);
    }
    if (cut_ == Cut::kRst) {
      client.Reset();
      server.Reset();
    }
  }
  static bool Forward(const TcpSocket& from, const TcpSocket& to) {
    char bytes[64 << 10];
    const ssize_t got = ::recv(from.fd(), bytes, sizeof(bytes), 0);
    return got > 0 && to.Send(std::string_view(bytes, static_cast<size_t>(got)));
  }

  const TcpSocket door_;
  std::atomic<Cut> cut_ = Cut::kFin;
  std::jthread thread_;
};

// "tcp://127.0.0.1:5555" → 5555
inline uint16_t PortOf(const std::string& endpoint) {
  return static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

}  // namespace emlio::transport::testing

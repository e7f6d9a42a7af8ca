// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <thread>

namespace emlio::bench {
namespace {

// A run that has not ended by then is stuck: both processes are ended by the alarm.
constexpr unsigned kDeadlineSeconds = 120;
constexpr char kLoopback[] = "127.0.0.1";

sockaddr_in SocketAddress(const std::string& address, uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  if (inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1) {
    Die(address + " is no IPv4 address");
  }
  return name;
}

void NoDelay(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

// Threads that stand ready and all begin at Go.
class Team {
 public:
  Team(const std::vector<int>& fds, const std::function<void(int, int)>& body) {
    for (size_t i = 0; i < fds.size(); ++i) {
      threads_.emplace_back([this, &body, fd = fds[i], i] {
        go_.wait();
        body(fd, static_cast<int>(i));
      });
    }
  }
  void GoAndJoin() {
    go_.count_down();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::latch go_{1};
  std::vector<std::thread> threads_;
};

void Put(int fd, const void* data, size_t size) {
  if (write(fd, data, size) != static_cast<ssize_t>(size)) Die("the other process has gone");
}

void Get(int fd, void* data, size_t size) {
  if (!ReceiveAll(fd, data, size)) Die("the other process has gone");
}

[[noreturn]] void ServerProcess(const Transfer& transfer, int listener, int control) {
  if (transfer.prepare_server) transfer.prepare_server();
  char token = 'r';
  Put(control, &token, 1);
  std::vector<int> fds;
  for (int i = 0; i < transfer.streams; ++i) fds.push_back(Accept(listener));
  Team team(fds, transfer.serve);
  Put(control, &token, 1);
  Get(control, &token, 1);
  const double cpu_begin = CpuSeconds();
  team.GoAndJoin();
  const double cpu_s = CpuSeconds() - cpu_begin;
  for (int fd : fds) shutdown(fd, SHUT_WR);
  Put(control, &cpu_s, sizeof(cpu_s));
  _exit(0);
}

}  // namespace

void Die(const std::string& what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::_Exit(1);
}

void DieErrno(const std::string& what) { Die(what + ": " + std::strerror(errno)); }

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int Listen(const std::string& address, uint16_t* port) {
  sockaddr_in name = SocketAddress(address, *port);
  socklen_t size = sizeof(name);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&name), size) != 0 || listen(fd, 256) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    DieErrno("cannot listen on " + address);
  }
  *port = ntohs(name.sin_port);
  return fd;
}

int Connect(const std::string& address, uint16_t port) {
  const sockaddr_in name = SocketAddress(address, port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    DieErrno("cannot connect to " + address);
  }
  NoDelay(fd);
  return fd;
}

int Accept(int listener) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) DieErrno("accept");
  NoDelay(fd);
  return fd;
}

bool SendAll(int fd, iovec* pieces, int count) {
  msghdr message{};
  while (count > 0) {
    message.msg_iov = pieces;
    message.msg_iovlen = static_cast<size_t>(count);
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE || errno == ECONNRESET) return false;
      DieErrno("send");
    }
    while (count > 0 && static_cast<size_t>(sent) >= pieces->iov_len) {
      sent -= static_cast<ssize_t>(pieces->iov_len);
      ++pieces;
      --count;
    }
    if (count > 0) {
      pieces->iov_base = static_cast<uint8_t*>(pieces->iov_base) + sent;
      pieces->iov_len -= static_cast<size_t>(sent);
    }
  }
  return true;
}

size_t ReceiveSome(int fd, void* to, size_t size) {
  for (;;) {
    const ssize_t got = recv(fd, to, size, MSG_WAITALL);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) DieErrno("receive");
  }
}

bool ReceiveAll(int fd, void* to, size_t size) {
  const size_t got = ReceiveSome(fd, to, size);
  if (got == size) return true;
  if (got == 0) return false;
  Die("a stream ended inside a message");
}

TransferTimes Run(const Transfer& transfer) {
  uint16_t port = 0;
  const int listener = Listen(kLoopback, &port);
  int control[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) DieErrno("socketpair");
  const pid_t parent = getpid();
  const pid_t server = fork();
  if (server < 0) DieErrno("fork");
  alarm(kDeadlineSeconds);
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    close(control[0]);
    ServerProcess(transfer, listener, control[1]);
  }
  close(control[1]);
  close(listener);

  char token = 0;
  Get(control[0], &token, 1);
  std::vector<int> fds;
  for (int i = 0; i < transfer.streams; ++i) fds.push_back(Connect(kLoopback, port));
  if (transfer.prepare_client) transfer.prepare_client();
  Team team(fds, transfer.receive);
  Get(control[0], &token, 1);

  TransferTimes times;
  const double cpu_begin = CpuSeconds();
  const double begin = NowSeconds();
  Put(control[0], &token, 1);
  team.GoAndJoin();
  times.seconds = NowSeconds() - begin;
  times.client_cpu_s = CpuSeconds() - cpu_begin;
  Get(control[0], &times.server_cpu_s, sizeof(times.server_cpu_s));
  int status = 0;
  if (waitpid(server, &status, 0) != server || status != 0) Die("the server process failed");
  for (int fd : fds) close(fd);
  close(control[0]);
  return times;
}

std::vector<uint8_t> FaultedBuffer(size_t size) { return std::vector<uint8_t>(size, 1); }

}  // namespace emlio::bench

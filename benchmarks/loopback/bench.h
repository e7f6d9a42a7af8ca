// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// What the loopback yardsticks share: two processes, the streams between them, and their clocks.
// Nothing here reports errors: a benchmark that cannot go on says why on standard error and ends
// with exit code 1.
namespace emlio::bench {

[[noreturn]] void Die(const std::string& what);
// Die with the text of errno.
[[noreturn]] void DieErrno(const std::string& what);

// User and system time of this process.
double CpuSeconds();
// Monotonic.
double NowSeconds();

// A TCP socket that listens on an IPv4 address; port 0 is any, and is set to the one it got.
int Listen(const std::string& address, uint16_t* port);
// Streams send at once what they are given (TCP_NODELAY).
int Connect(const std::string& address, uint16_t port);
int Accept(int listener);

// Sends all bytes of the pieces; changes the array. False when the peer has closed.
bool SendAll(int fd, iovec* pieces, int count);
// Waits until `size` bytes or the peer's close are there; 0 at the end of the stream.
size_t ReceiveSome(int fd, void* to, size_t size);
// False when the peer closed before the first byte; a close in the middle is fatal.
bool ReceiveAll(int fd, void* to, size_t size);

// One transfer from a server process to a client process over `streams` TCP connections on
// loopback, with a thread for each stream at both ends.
struct Transfer {
  int streams = 4;
  // Runs in the server process before the clock starts: maps files, makes buffers.
  std::function<void()> prepare_server;
  // The body of one stream's thread; both processes join their threads before the clock stops.
  std::function<void(int fd, int stream)> serve;
  // Before the clock starts, in the client process.
  std::function<void()> prepare_client;
  std::function<void(int fd, int stream)> receive;
};

struct TransferTimes {
  double seconds = 0;       // from the go of the client until its last thread has ended
  double client_cpu_s = 0;  // user and system time of the process between the same two points
  double server_cpu_s = 0;  // the same, of the server
};

// Forks the server. REQUIRES: no other thread runs in this process.
TransferTimes Run(const Transfer& transfer);

// A buffer whose pages are faulted in.
std::vector<uint8_t> FaultedBuffer(size_t size);

}  // namespace emlio::bench

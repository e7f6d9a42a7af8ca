// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emlio/base/status.h"

// Network namespaces and the TUN devices in them. Nothing here has a name outside this process:
// namespaces and devices end with the last process that uses them.
namespace emlio::wanlab {

// A file descriptor that is closed with the object.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();

  int get() const { return fd_; }
  int Release();

 private:
  int fd_ = -1;
};

// Makes the process able to make network namespaces: changes nothing where it already is, as root
// is; else enters a user namespace in which the user is root. kPermissionDenied says what the
// system forbids. REQUIRES: no other thread runs in this process.
Status BecomeAbleToMakeNamespaces();

// A network namespace with its loopback interface up and IPv6 off (nothing but what is measured
// should be on the link). The calling thread stays in it.
Result<UniqueFd> MakeNetworkNamespace();

// Sends the calling thread into a namespace.
Status EnterNetworkNamespace(const UniqueFd& network_namespace);

// A TUN device, and how it shows up in its namespace.
struct TunDevice {
  UniqueFd fd;          // reads and writes one frame at a time, never blocks (packet.h)
  UniqueFd statistics;  // /proc/net/dev of its namespace
  std::string name;
};

struct TunSettings {
  std::string name;
  std::string address;  // dotted IPv4
  int prefix_bits = 30;
  int mtu = 1500;
};

// Makes a device in the namespace of the calling thread, with segmentation and checksums left to
// the reader of `fd`, and sets it up.
Result<TunDevice> MakeTunDevice(const TunSettings& settings);

// Packets that the kernel dropped before they could be read from the device.
uint64_t DroppedBeforeReading(const TunDevice& device);

// Kills (SIGKILL) every process in these network namespaces except this one, and waits up to
// `deadline_ns` of the system's clock until they are gone. Returns how many there were.
int KillProcessesIn(const std::vector<UniqueFd>& network_namespaces, int64_t deadline_ns);

}  // namespace emlio::wanlab

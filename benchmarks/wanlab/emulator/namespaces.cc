// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "namespaces.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <utility>

#include "emlio/base/clock.h"
#include "packet.h"

namespace emlio::wanlab {
namespace {

// Super-packets: enough for every acknowledgement of a fast link while its reader waits for a core.
constexpr int kDeviceQueueFrames = 10'000;

Status WriteFile(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, path);
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return ErrnoStatus(errno, path);
  }
  return OkStatus();
}

Status Ioctl(int fd, unsigned long request, void* argument, const std::string& what) {
  if (ioctl(fd, request, argument) < 0) return ErrnoStatus(errno, what);
  return OkStatus();
}

ifreq RequestFor(const std::string& device) {
  ifreq request{};
  std::memcpy(request.ifr_name, device.data(), std::min<size_t>(device.size(), IFNAMSIZ - 1));
  return request;
}

Status SetUp(int socket, const std::string& device) {
  ifreq request = RequestFor(device);
  EMLIO_RETURN_IF_ERROR(Ioctl(socket, SIOCGIFFLAGS, &request, device));
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  return Ioctl(socket, SIOCSIFFLAGS, &request, device + ": cannot be set up");
}

Status SetAddress(int socket, const std::string& device, unsigned long request_code,
                  in_addr address) {
  ifreq request = RequestFor(device);
  sockaddr_in value{};
  value.sin_family = AF_INET;
  value.sin_addr = address;
  std::memcpy(&request.ifr_addr, &value, sizeof(value));
  return Ioctl(socket, request_code, &request, device + ": its address cannot be set");
}

// By netlink: the ioctl wants to be root outside of user namespaces as well.
Status SetQueueLength(const std::string& device, uint32_t frames) {
  struct {
    nlmsghdr header;
    ifinfomsg link;
    rtattr attribute;
    uint32_t frames;
  } message{};
  static_assert(sizeof(message) == NLMSG_LENGTH(sizeof(ifinfomsg)) + RTA_LENGTH(sizeof(uint32_t)));
  message.header.nlmsg_len = sizeof(message);
  message.header.nlmsg_type = RTM_NEWLINK;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  message.link.ifi_index = static_cast<int>(if_nametoindex(device.c_str()));
  message.attribute.rta_len = RTA_LENGTH(sizeof(uint32_t));
  message.attribute.rta_type = IFLA_TXQLEN;
  message.frames = frames;
  struct {
    nlmsghdr header;
    nlmsgerr error;
    char rest[512];
  } answer{};
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (netlink.get() < 0 || send(netlink.get(), &message, sizeof(message), 0) < 0 ||
      recv(netlink.get(), &answer, sizeof(answer), 0) < 0) {
    return ErrnoStatus(errno, device + ": netlink");
  }
  if (answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error != 0) {
    return ErrnoStatus(-answer.error.error, device + ": its queue cannot be made longer");
  }
  return OkStatus();
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

int UniqueFd::Release() { return std::exchange(fd_, -1); }

Status BecomeAbleToMakeNamespaces() {
  // The only reliable question is to do it; the namespace made here is left again at once.
  if (unshare(CLONE_NEWNET) == 0) return OkStatus();
  if (errno != EPERM) return ErrnoStatus(errno, "a network namespace cannot be made");
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER) != 0) {
    return ErrnoStatus(errno,
                       "not root, and a user namespace cannot be made (look at the sysctls "
                       "user.max_user_namespaces, kernel.unprivileged_userns_clone and "
                       "kernel.apparmor_restrict_unprivileged_userns)");
  }
  EMLIO_RETURN_IF_ERROR(WriteFile("/proc/self/setgroups", "deny"));
  EMLIO_RETURN_IF_ERROR(WriteFile("/proc/self/uid_map", "0 " + std::to_string(user) + " 1"));
  EMLIO_RETURN_IF_ERROR(WriteFile("/proc/self/gid_map", "0 " + std::to_string(group) + " 1"));
  if (unshare(CLONE_NEWNET) != 0) {
    return ErrnoStatus(errno, "a network namespace cannot be made inside a user namespace");
  }
  return OkStatus();
}

Result<UniqueFd> MakeNetworkNamespace() {
  if (unshare(CLONE_NEWNET) != 0) {
    return ErrnoStatus(errno, "a network namespace cannot be made");
  }
  UniqueFd handle(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (handle.get() < 0) return ErrnoStatus(errno, "/proc/thread-self/ns/net");
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return ErrnoStatus(errno, "socket");
  EMLIO_RETURN_IF_ERROR(SetUp(socket.get(), "lo"));
  // A kernel without IPv6 has no such file.
  (void)WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  return handle;
}

Status EnterNetworkNamespace(const UniqueFd& network_namespace) {
  if (setns(network_namespace.get(), CLONE_NEWNET) != 0) {
    return ErrnoStatus(errno, "a network namespace cannot be entered");
  }
  return OkStatus();
}

Result<TunDevice> MakeTunDevice(const TunSettings& settings) {
  TunDevice device;
  device.name = settings.name;
  device.fd = UniqueFd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (device.fd.get() < 0) {
    return ErrnoStatus(errno,
                       "/dev/net/tun cannot be opened (module tun, or permission of the file)");
  }
  ifreq request = RequestFor(settings.name);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  EMLIO_RETURN_IF_ERROR(
      Ioctl(device.fd.get(), TUNSETIFF, &request, settings.name + ": no TUN device can be made"));
  int header_bytes = sizeof(VirtioNetHeader);
  EMLIO_RETURN_IF_ERROR(Ioctl(device.fd.get(), TUNSETVNETHDRSZ, &header_bytes, "TUNSETVNETHDRSZ"));
  if (ioctl(device.fd.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO_ECN) < 0) {
    return ErrnoStatus(errno, settings.name + ": the TUN device takes no super-packets");
  }

  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return ErrnoStatus(errno, "socket");
  request = RequestFor(settings.name);
  request.ifr_mtu = settings.mtu;
  EMLIO_RETURN_IF_ERROR(
      Ioctl(socket.get(), SIOCSIFMTU, &request,
            settings.name + ": the MTU cannot be " + std::to_string(settings.mtu)));
  EMLIO_RETURN_IF_ERROR(SetQueueLength(settings.name, kDeviceQueueFrames));
  in_addr address{};
  if (inet_pton(AF_INET, settings.address.c_str(), &address) != 1) {
    return InvalidArgument(settings.address + " is no IPv4 address");
  }
  const uint32_t mask = settings.prefix_bits == 0 ? 0 : ~uint32_t{0} << (32 - settings.prefix_bits);
  EMLIO_RETURN_IF_ERROR(SetAddress(socket.get(), settings.name, SIOCSIFADDR, address));
  EMLIO_RETURN_IF_ERROR(
      SetAddress(socket.get(), settings.name, SIOCSIFNETMASK, in_addr{htonl(mask)}));
  EMLIO_RETURN_IF_ERROR(SetUp(socket.get(), settings.name));
  device.statistics = UniqueFd(open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC));
  if (device.statistics.get() < 0) return ErrnoStatus(errno, "/proc/thread-self/net/dev");
  return device;
}

uint64_t DroppedBeforeReading(const TunDevice& device) {
  std::string text(1 << 16, '\0');
  const ssize_t size = pread(device.statistics.get(), text.data(), text.size(), 0);
  if (size <= 0) return 0;
  text.resize(static_cast<size_t>(size));
  const size_t at = text.find(device.name + ":");
  if (at == std::string::npos) return 0;
  // Eight columns of receiving, then packets sent, as the namespace sees it: bytes, packets,
  // errors, dropped.
  std::istringstream columns(text.substr(at + device.name.size() + 1));
  uint64_t value = 0;
  for (int column = 0; column < 12; ++column) columns >> value;
  return columns ? value : 0;
}

int KillProcessesIn(const std::vector<UniqueFd>& network_namespaces, int64_t deadline_ns) {
  std::vector<std::pair<dev_t, ino_t>> wanted;
  for (const UniqueFd& network_namespace : network_namespaces) {
    struct stat info{};
    if (fstat(network_namespace.get(), &info) == 0) wanted.emplace_back(info.st_dev, info.st_ino);
  }
  std::vector<pid_t> killed;
  while (true) {
    int alive = 0;
    DIR* directory = opendir("/proc");
    if (directory == nullptr) return static_cast<int>(killed.size());
    while (const dirent* entry = readdir(directory)) {
      const char* name = entry->d_name;
      pid_t pid = 0;
      const auto [end, error] = std::from_chars(name, name + std::strlen(name), pid);
      if (error != std::errc() || *end != '\0' || pid == getpid()) continue;
      struct stat info{};
      // A process that has ended and not been waited for is in no namespace: stat fails.
      const std::string path = "/proc/" + std::string(name) + "/ns/net";
      if (stat(path.c_str(), &info) != 0) continue;
      if (std::ranges::find(wanted, std::pair(info.st_dev, info.st_ino)) == wanted.end()) continue;
      ++alive;
      kill(pid, SIGKILL);
      if (std::ranges::find(killed, pid) == killed.end()) killed.push_back(pid);
    }
    closedir(directory);
    if (alive == 0 || SystemClock().NowNs() > deadline_ns) return static_cast<int>(killed.size());
    usleep(1000);
  }
}

}  // namespace emlio::wanlab

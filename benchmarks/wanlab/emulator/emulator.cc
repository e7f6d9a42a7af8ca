// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
// The emulator: makes network namespaces, joins them by TUN devices, and carries packets between
// them as links of a given length, rate and quality would. ../README.md says how to talk to it.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "config.h"
#include "emlio/base/clock.h"
#include "emlio/base/thread.h"
#include "link_thread.h"
#include "namespaces.h"

namespace emlio::wanlab {
namespace {

using nlohmann::json;

constexpr int kParentCheckMs = 1000;
constexpr int64_t kKillDeadlineNs = 10 * kNsPerSecond;
constexpr size_t kMaxClients = 16;

void Print(const json& line) {
  const std::string text = line.dump() + "\n";
  (void)!write(STDOUT_FILENO, text.data(), text.size());
}

json Describe(const LinkModel& model, uint64_t device_drops) {
  const DirectionSettings& settings = model.settings();
  const DirectionCounts& counts = model.counts();
  return {
      {"settings",
       {{"delay_ms", static_cast<double>(settings.delay_ns) / 1e6},
        {"jitter_ms", static_cast<double>(settings.jitter_ns) / 1e6},
        {"rate_mbit", static_cast<double>(settings.rate_bits_per_s) / 1e6},
        {"loss_percent", settings.loss * 100},
        {"reorder_percent", settings.reorder * 100},
        {"reorder_by_ms", static_cast<double>(settings.reorder_by_ns) / 1e6},
        {"queue_bytes", settings.queue_bytes},
        {"queue_packets", settings.queue_packets},
        {"cut", settings.cut},
        {"stalled", settings.stalled}}},
      {"offered",
       {{"packets", counts.offered_packets},
        {"bytes", counts.offered_bytes},
        {"frames", counts.offered_frames}}},
      {"delivered",
       {{"packets", counts.delivered_packets},
        {"bytes", counts.delivered_bytes},
        {"frames", counts.delivered_frames}}},
      {"dropped",
       {{"loss", counts.lost_packets},
        {"queue", counts.queue_dropped_packets},
        {"cut", counts.cut_packets},
        {"memory", counts.memory_dropped_packets},
        {"device", device_drops}}},
      {"reordered_packets", counts.reordered_packets},
      {"peak_queue_bytes", counts.peak_queue_bytes},
      {"peak_held_bytes", counts.peak_held_bytes},
      {"late_us",
       {{"mean", counts.delivered_frames == 0 ? 0.0
                                              : static_cast<double>(counts.late_ns_sum) / 1e3 /
                                                    static_cast<double>(counts.delivered_frames)},
        {"max", static_cast<double>(counts.late_ns_max) / 1e3}}},
  };
}

class Emulator {
 public:
  Status Start(Config config);
  // Until a signal, a stop command, or the end of standard input or of the parent process.
  void Serve();
  json Statistics();
  int KillProcesses() {
    return KillProcessesIn(namespaces_, SystemClock().NowNs() + kKillDeadlineNs);
  }

 private:
  struct Client {
    UniqueFd fd;
    std::string received;
  };

  Status MakeLink(size_t number);
  void Configure(size_t link);
  Status Set(const Command& command);
  json Answer(std::string_view line, bool* stop);
  // False when the client has gone or sends too much.
  bool ServeClient(Client* client, bool* stop);
  Status Listen();

  Config config_;
  int64_t started_ns_ = 0;
  UniqueFd home_;  // where this process is itself: in no node
  std::vector<UniqueFd> namespaces_;
  std::vector<std::unique_ptr<LinkThread>> links_;
  UniqueFd listener_;
  UniqueFd signals_;
  std::vector<Client> clients_;
};

Status Emulator::Start(Config config) {
  config_ = std::move(config);
  started_ns_ = SystemClock().NowNs();
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&wanted, signal);
  sigprocmask(SIG_BLOCK, &wanted, nullptr);
  signals_ = UniqueFd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals_.get() < 0) return ErrnoStatus(errno, "signalfd");
  EMLIO_RETURN_IF_ERROR(Listen());
  EMLIO_RETURN_IF_ERROR(BecomeAbleToMakeNamespaces());
  EMLIO_ASSIGN_OR_RETURN(home_, MakeNetworkNamespace());
  json nodes = json::array();
  for (const std::string& name : config_.nodes) {
    EMLIO_ASSIGN_OR_RETURN(UniqueFd made, MakeNetworkNamespace());
    nodes.push_back({{"name", name}, {"fd", made.get()}});
    namespaces_.push_back(std::move(made));
  }
  std::string priority = "none";
  for (size_t number = 0; number < config_.links.size(); ++number) {
    const Status made = MakeLink(number);
    if (!made.ok()) return made.WithContext("link " + std::to_string(number));
    priority = links_.back()->priority();
  }
  Print({{"ready", true}, {"pid", getpid()}, {"nodes", nodes}, {"priority", priority}});
  return OkStatus();
}

Status Emulator::Listen() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (config_.control_path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument(config_.control_path + ": too long for a socket");
  }
  std::memcpy(address.sun_path, config_.control_path.data(), config_.control_path.size());
  listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listener_.get() < 0 ||
      bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener_.get(), 8) != 0) {
    return ErrnoStatus(errno, config_.control_path);
  }
  return OkStatus();
}

Status Emulator::MakeLink(size_t number) {
  const LinkConfig& link = config_.links[number];
  const std::string name = "link" + std::to_string(number);
  EMLIO_RETURN_IF_ERROR(EnterNetworkNamespace(namespaces_[link.storage]));
  EMLIO_ASSIGN_OR_RETURN(TunDevice storage,
                         MakeTunDevice({name, link.storage_address, link.prefix_bits, link.mtu}));
  EMLIO_RETURN_IF_ERROR(EnterNetworkNamespace(namespaces_[link.compute]));
  EMLIO_ASSIGN_OR_RETURN(TunDevice compute,
                         MakeTunDevice({name, link.compute_address, link.prefix_bits, link.mtu}));
  EMLIO_RETURN_IF_ERROR(EnterNetworkNamespace(home_));
  EMLIO_ASSIGN_OR_RETURN(std::unique_ptr<LinkThread> thread,
                         LinkThread::Start(static_cast<int>(number), std::move(storage),
                                           std::move(compute), config_.seed * kMaxLinks + number));
  links_.push_back(std::move(thread));
  Configure(number);
  return OkStatus();
}

void Emulator::Configure(size_t link) {
  const WantedDirection* wanted = config_.links[link].directions;
  const DirectionSettings to_compute = Resolve(wanted[kToCompute], wanted[kToStorage]);
  const DirectionSettings to_storage = Resolve(wanted[kToStorage], wanted[kToCompute]);
  links_[link]->Call([&](const LinkThread::View& view) {
    const int64_t now_ns = SystemClock().NowNs();
    view.to_compute.Configure(now_ns, to_compute);
    view.to_storage.Configure(now_ns, to_storage);
  });
}

Status Emulator::Set(const Command& command) {
  if (command.link && *command.link >= links_.size()) {
    return InvalidArgument("there is no link " + std::to_string(*command.link));
  }
  // All or nothing.
  std::vector<LinkConfig> changed = config_.links;
  for (size_t link = 0; link < changed.size(); ++link) {
    if (command.link && *command.link != link) continue;
    for (const Direction direction : kDirections) {
      if (command.direction && *command.direction != direction) continue;
      EMLIO_RETURN_IF_ERROR(Apply(command.set, &changed[link].directions[direction]));
    }
  }
  config_.links = std::move(changed);
  for (size_t link = 0; link < links_.size(); ++link) {
    if (!command.link || *command.link == link) Configure(link);
  }
  return OkStatus();
}

json Emulator::Statistics() {
  json links = json::array();
  double link_cpu_s = 0;
  for (const std::unique_ptr<LinkThread>& link : links_) {
    link->Call([&](const LinkThread::View& view) {
      const double cpu_s = static_cast<double>(view.counts.cpu_ns) / 1e9;
      link_cpu_s += cpu_s;
      links.push_back({
          {"to_compute", Describe(view.to_compute, view.to_compute_device_drops)},
          {"to_storage", Describe(view.to_storage, view.to_storage_device_drops)},
          {"cpu_s", cpu_s},
          {"wake_ups", view.counts.wake_ups},
          {"write_errors", view.counts.write_errors},
          {"last_write_error",
           view.counts.write_errors == 0 ? "" : std::strerror(view.counts.last_write_errno)},
          {"packet_memory_bytes", view.counts.packet_memory_bytes},
          {"priority", link->priority()},
      });
    });
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return {
      {"links", links},
      {"cpu_s", link_cpu_s},
      {"process_cpu_s", seconds(usage.ru_utime) + seconds(usage.ru_stime)},
      {"peak_memory_mib", static_cast<double>(usage.ru_maxrss) / 1024},
      {"elapsed_s", static_cast<double>(SystemClock().NowNs() - started_ns_) / 1e9},
  };
}

json Emulator::Answer(std::string_view line, bool* stop) {
  Result<Command> command = ParseCommand(line);
  Status status = command.status();
  json answer = {{"ok", true}};
  if (status.ok()) {
    switch (command->kind) {
      case Command::kSet:
        status = Set(*command);
        break;
      case Command::kStatistics:
        answer["statistics"] = Statistics();
        break;
      case Command::kStop:
        *stop = true;
        break;
    }
  }
  if (!status.ok()) return {{"ok", false}, {"error", status.message()}};
  return answer;
}

bool Emulator::ServeClient(Client* client, bool* stop) {
  char piece[4096];
  const ssize_t size = recv(client->fd.get(), piece, sizeof(piece), 0);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size == 0) return false;
  client->received.append(piece, static_cast<size_t>(size));
  for (size_t end; (end = client->received.find('\n')) != std::string::npos;) {
    const std::string reply =
        Answer(std::string_view(client->received).substr(0, end), stop).dump() + "\n";
    client->received.erase(0, end + 1);
    // A client that does not read its answers is left alone.
    if (send(client->fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
        static_cast<ssize_t>(reply.size())) {
      return false;
    }
  }
  return client->received.size() <= kMaxCommandBytes;
}

void Emulator::Serve() {
  const pid_t parent = getppid();
  bool stop = false;
  while (!stop && getppid() == parent) {
    std::vector<pollfd> fds = {
        {signals_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Client& client : clients_) fds.push_back({client.fd.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), kParentCheckMs) <= 0) continue;
    signalfd_siginfo signal;
    if (read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
      if (signal.ssi_signo != SIGUSR1) return;
      Print({{"statistics", Statistics()}});
    }
    if (char ignored[256];
        fds[1].revents != 0 && read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0) {
      return;
    }
    for (size_t i = clients_.size(); i-- > 0;) {
      if (fds[3 + i].revents == 0 || ServeClient(&clients_[i], &stop)) continue;
      clients_.erase(clients_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (fds[2].revents != 0) {
      UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.get() >= 0 && clients_.size() < kMaxClients) {
        clients_.push_back({std::move(client), ""});
      }
    }
  }
}

// The first line of standard input.
Result<std::string> ReadConfig() {
  std::string text;
  char byte;
  while (true) {
    const ssize_t size = read(STDIN_FILENO, &byte, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return ErrnoStatus(errno, "standard input");
    if (size == 0) return InvalidArgument("standard input ended within the first line");
    if (byte == '\n') return text;
    text.push_back(byte);
    if (text.size() > kMaxConfigBytes) return LimitExceeded("the first line is too long");
  }
}

Status RunEmulator() {
  EMLIO_ASSIGN_OR_RETURN(const std::string text, ReadConfig());
  Result<Config> config = ParseConfig(text);
  if (!config.ok()) return config.status().WithContext("configuration");
  Emulator emulator;
  EMLIO_RETURN_IF_ERROR(emulator.Start(*std::move(config)));
  emulator.Serve();
  const int killed = emulator.KillProcesses();
  Print({{"statistics", emulator.Statistics()}, {"killed_processes", killed}});
  return OkStatus();
}

}  // namespace
}  // namespace emlio::wanlab

int main(int argc, char**) {
  if (argc != 1) {
    std::fputs(
        "usage: wanlab_emulator < CONFIG\n"
        "Takes no arguments: its configuration is one line of JSON on standard input, and it ends\n"
        "with standard input. See benchmarks/wanlab/README.md.\n",
        stderr);
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  const emlio::Status status = emlio::wanlab::RunEmulator();
  if (!status.ok()) {
    std::fprintf(stderr, "wanlab_emulator: %s\n", status.message().c_str());
    return status.code() == emlio::Code::kInvalidArgument ? 2 : 1;
  }
  return 0;
}

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/self_check.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/base/file.h"
#include "emlio/base/hash128.h"
#include "emlio/base/nanoseconds.h"
#include "emlio/base/thread.h"
#include "emlio/energy/clock_state.h"
#include "emlio/energy/host_share.h"
#include "emlio/energy/sysfs.h"

namespace emlio::energy {
namespace {

constexpr int kMovesToSee = 5;
constexpr std::chrono::microseconds kPollInterval{500};
constexpr size_t kMaxLoadThreads = 32;
constexpr size_t kLoadBytes = size_t{32} << 20;  // of a thread: more than its share of caches
// What memory under load draws more than at rest, at least.
constexpr double kMinRiseWatts = 0.3;
constexpr double kMinRiseShare = 0.05;
constexpr double kMinLoadShare = 0.2;  // of the CPUs; with less memory may not show its load

struct Watched {
  Meter* meter;
  std::optional<uint64_t> value;
  int moves = 0;
  int64_t first_ns = 0;
  int64_t last_ns = 0;
};

// Of each of `threads`.
size_t LoadBytes(int threads) {
  const auto free_bytes = static_cast<size_t>(std::max(0L, sysconf(_SC_AVPHYS_PAGES))) *
                          static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::clamp<size_t>(free_bytes / 8 / static_cast<size_t>(threads), size_t{1} << 20,
                            kLoadBytes);
}

int LoadThreads(size_t cpus) {
  return static_cast<int>(std::clamp<size_t>(cpus, 1, kMaxLoadThreads));
}

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::string ChecksFile(const std::string& directory, const std::string& key) {
  return fmt::format("{}/memory-{}", directory, ToHex(Xxh3(key.data(), key.size())));
}

// Where they are kept for everybody. Empty: there is no such place.
std::string HostChecksPath(const std::string& root) {
  const auto directory = HostDirectory(root);
  return directory.ok() ? ChecksFile(*directory, BootId(root)) : "";
}

// Where they are kept for this user alone.
Result<std::string> UserChecksPath(const std::string& root) {
  EMLIO_ASSIGN_OR_RETURN(const std::string directory, RuntimeDirectory());
  return ChecksFile(directory, BootId(root) + "\n" + root);
}

// When a file that nobody but root and this user can have written was written; 0: it is none.
int64_t WrittenNs(const std::string& path) {
  struct stat status{};
  if (path.empty() || lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
      (status.st_uid != 0 && status.st_uid != geteuid()) || (status.st_mode & 022) != 0) {
    return 0;
  }
  return status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec;
}

using DramChecks = std::map<std::string, DramCheck>;  // by domain

// Adds a later check to those that are kept. One that found nothing takes nothing back.
void AddCheck(const DramCheck& check, DramChecks* kept) {
  if (check.rise != Rise::kUnknown || !kept->contains(check.id)) (*kept)[check.id] = check;
}

// Adds those of a file; none when nothing can be read there.
void ReadChecks(const std::string& path, DramChecks* kept) {
  const auto text = ReadText(path);
  if (!text.ok()) return;
  std::istringstream lines(*text);
  DramCheck check;
  std::string rise;
  while (lines >> check.id >> rise >> check.idle_watts >> check.load_watts) {
    for (const Rise known : {Rise::kRises, Rise::kFlat, Rise::kUnknown}) {
      if (rise != RiseName(known)) continue;
      check.rise = known;
      AddCheck(check, kept);
    }
  }
}

// What was found out last.
DramChecks KeptDramChecks(const std::string& root) {
  const std::string of_host = HostChecksPath(root);
  const auto of_user = UserChecksPath(root);
  const int64_t host_ns = WrittenNs(of_host);
  const int64_t user_ns = of_user.ok() ? WrittenNs(*of_user) : 0;
  DramChecks kept;
  if (user_ns > 0 && user_ns <= host_ns) ReadChecks(*of_user, &kept);
  if (host_ns > 0) ReadChecks(of_host, &kept);
  if (user_ns > host_ns) ReadChecks(*of_user, &kept);
  return kept;
}

WindowLabel Label(std::string name) {
  WindowLabel label;
  label.name = std::move(name);
  return label;
}

double Watts(const Energy& energy, const WindowReport& window) {
  return *energy.joules / (Seconds(window.end_ns - window.begin_ns));
}

}  // namespace

bool IsCountedDram(const Meter& meter) {
  return meter.domain.kind == DomainKind::kDram && meter.counter != nullptr;
}

void MeasureUpdatePeriods(std::vector<Meter>* meters, bool all, int64_t budget_ns) {
  std::vector<Watched> watched;
  for (Meter& meter : *meters) {
    if (meter.counter == nullptr || meter.domain.quantity != Quantity::kEnergy) continue;
    if (meter.domain.update_period_ns > 0) continue;
    const bool gpu =
        meter.domain.kind == DomainKind::kGpu || meter.domain.kind == DomainKind::kModule;
    if (gpu || all) watched.push_back({&meter, std::nullopt});
  }
  const int64_t until_ns = SystemClock().NowNs() + budget_ns;
  const auto enough = [](const Watched& one) { return one.moves > kMovesToSee; };
  while (!std::all_of(watched.begin(), watched.end(), enough)) {
    if (SystemClock().NowNs() >= until_ns) break;
    for (Watched& one : watched) {
      if (enough(one)) continue;
      const auto value = one.meter->counter->Read();
      if (!value.ok()) continue;
      if (one.value && *value != *one.value) {
        one.last_ns = SystemClock().NowNs();
        if (one.moves++ == 0) one.first_ns = one.last_ns;
      }
      one.value = *value;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  for (const Watched& one : watched) {
    if (one.moves < 2) continue;
    one.meter->domain.update_period_ns = (one.last_ns - one.first_ns) / (one.moves - 1);
  }
}

std::string_view RiseName(Rise rise) {
  switch (rise) {
    case Rise::kRises:
      return "rises";
    case Rise::kFlat:
      return "flat";
    case Rise::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Result<std::vector<DramCheck>> CheckDram(Monitor& monitor, int64_t idle_ns,
                                         const std::function<double()>& load) {
  const WindowId idle_id = monitor.Open(Label("memory at rest"));
  std::this_thread::sleep_for(std::chrono::nanoseconds(idle_ns));
  monitor.Close(idle_id);
  const WindowId load_id = monitor.Open(Label("memory under load"));
  const double load_share = load();
  monitor.Close(load_id);
  EMLIO_ASSIGN_OR_RETURN(const WindowReport idle, monitor.Report(idle_id));
  EMLIO_ASSIGN_OR_RETURN(const WindowReport loaded, monitor.Report(load_id));
  std::vector<DramCheck> checks;
  for (size_t i = 0; i < monitor.domains().size(); ++i) {
    const Domain& domain = monitor.domains()[i];
    if (domain.kind != DomainKind::kDram || domain.source.empty()) continue;
    DramCheck check;
    check.id = domain.id;
    if (idle.energies[i].joules && loaded.energies[i].joules) {
      check.idle_watts = Watts(idle.energies[i], idle);
      check.load_watts = Watts(loaded.energies[i], loaded);
      const double needed = std::max(kMinRiseWatts, kMinRiseShare * check.idle_watts);
      if (check.load_watts >= check.idle_watts + needed) {
        check.rise = Rise::kRises;
      } else if (load_share >= kMinLoadShare) {
        check.rise = Rise::kFlat;
      } else {
        check.cause = "the load had too few of the CPUs to tell";
      }
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::string FlatText(const DramCheck& check) {
  return fmt::format("{:.1f} W at rest and {:.1f} W under a memory load: it does not rise",
                     check.idle_watts, check.load_watts);
}

Status KeepDramChecks(const std::string& root, const std::vector<DramCheck>& checks) {
  std::string path = geteuid() == 0 ? HostChecksPath(root) : "";
  if (path.empty()) {
    EMLIO_ASSIGN_OR_RETURN(path, UserChecksPath(root));
  }
  DramChecks kept = KeptDramChecks(root);
  for (const DramCheck& check : checks) {
    if (check.cause.empty()) AddCheck(check, &kept);
  }
  std::string text;
  for (const auto& [id, check] : kept) {
    text += fmt::format("{} {} {:.1f} {:.1f}\n", check.id, RiseName(check.rise), check.idle_watts,
                        check.load_watts);
  }
  EMLIO_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  EMLIO_RETURN_IF_ERROR(file->Append(text.data(), text.size()));
  EMLIO_RETURN_IF_ERROR(file->Commit());
  // Whatever the umask: what holds for everybody is read by everybody.
  return chmod(path.c_str(), 0644) == 0 ? OkStatus() : ErrnoStatus(errno, path);
}

Result<std::unique_ptr<DirectoryLock>> LockDramChecks(const std::string& root, int64_t wait_ns) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  auto directory = HostDirectory(root);
  if (!directory.ok()) directory = RuntimeDirectory();
  EMLIO_RETURN_IF_ERROR(directory.status());
  const int64_t until_ns = SystemClock().NowNs() + wait_ns;
  while (true) {
    auto lock = DirectoryLock::Take(*directory);
    if (lock.status().code() != Code::kPermissionDenied || SystemClock().NowNs() >= until_ns) {
      return lock;
    }
    std::this_thread::sleep_for(kLook);
  }
}

void TakeDramChecks(const std::string& root, std::vector<Meter>* meters) {
  const auto kept = KeptDramChecks(root);
  for (Meter& meter : *meters) {
    if (!IsCountedDram(meter)) continue;
    const auto check = kept.find(meter.domain.id);
    const bool checked = check != kept.end() && check->second.rise != Rise::kUnknown;
    meter.domain.facts.emplace_back("memory_load",
                                    checked ? RiseName(check->second.rise) : "not checked");
    if (!checked || check->second.rise != Rise::kFlat) continue;
    meter.domain.doubt = FlatText(check->second);
  }
}

std::optional<DramCheck> KeptDramCheck(const std::string& root, const std::string& id) {
  const auto kept = KeptDramChecks(root);
  const auto check = kept.find(id);
  if (check == kept.end()) return std::nullopt;
  return check->second;
}

bool HasUncheckedDram(const std::string& root, const std::vector<Meter>& meters) {
  const auto kept = KeptDramChecks(root);
  return std::any_of(meters.begin(), meters.end(), [&](const Meter& meter) {
    return IsCountedDram(meter) && !kept.contains(meter.domain.id);
  });
}

bool CanLoadAllMemory() {
  const size_t cpus = AllowedCpus().size();
  return static_cast<int64_t>(cpus) >= sysconf(_SC_NPROCESSORS_ONLN) &&
         LoadBytes(LoadThreads(cpus)) == kLoadBytes;
}

double LoadMemory(int64_t duration_ns) {
  const std::vector<int> cpus = AllowedCpus();
  const int wanted = LoadThreads(static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
  const int threads = LoadThreads(cpus.size());
  const size_t bytes = LoadBytes(threads);
  const int64_t until_ns = SystemClock().NowNs() + duration_ns;
  std::atomic<int64_t> cpu_ns{0};
  auto pool = StartPool("emlio-load", threads, [&](int number, std::stop_token) {
    if (!cpus.empty()) {
      // Spread over all of them, so that memory of every socket is used.
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpus[static_cast<size_t>(number) * cpus.size() / static_cast<size_t>(threads)], &set);
      sched_setaffinity(0, sizeof set, &set);
    }
    std::vector<uint8_t> from(bytes, 1);
    std::vector<uint8_t> to(bytes, 2);
    while (SystemClock().NowNs() < until_ns) {
      std::memcpy(to.data(), from.data(), bytes);
      std::swap(from, to);
    }
    cpu_ns += ThreadCpuNs();
  });
  // Without any thread the load is none, and the check says so.
  if (!pool.ok()) std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns));
  if (pool.ok()) pool->clear();  // joins
  return static_cast<double>(cpu_ns) / (static_cast<double>(duration_ns) * wanted);
}

}  // namespace emlio::energy

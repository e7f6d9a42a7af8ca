// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emlio/base/clock.h"
#include "emlio/base/file.h"
#include "emlio/base/status.h"
#include "emlio/energy/meter.h"
#include "emlio/energy/monitor.h"

// What can be found out about counters before they are believed (METRICS.md section 3).
namespace emlio::energy {

// Reads counters of energy again and again until each was seen to move a few times, and sets
// Domain::update_period_ns of those that were; others keep 0, and one that is known stays. Takes at
// most `budget_ns`; of other domains than GPUs only with `all`. The meters are used by this thread
// alone meanwhile.
void MeasureUpdatePeriods(std::vector<Meter>* meters, bool all, int64_t budget_ns);

enum class Rise {
  kRises,
  kFlat,     // a counter that shows nothing of what memory does is not believed
  kUnknown,  // no joules in one of the two times, or too little of a load to tell
};
// "rises", "flat", "unknown".
std::string_view RiseName(Rise rise);

struct DramCheck {
  std::string id;  // of the domain
  Rise rise = Rise::kUnknown;
  double idle_watts = 0;
  double load_watts = 0;
  std::string cause = {};  // why it was none and has to be made again; empty: it was one
};

// Compares the power of every DRAM domain of a monitored host before and during `load`, which keeps
// its memory busy until it returns, and then says with what share of the host's CPUs: with less
// than a fifth of them nothing is called flat. `idle_ns`: how long to look before.
Result<std::vector<DramCheck>> CheckDram(Monitor& monitor, int64_t idle_ns,
                                         const std::function<double()>& load);

// Why a domain of which a check said that it is flat is not believed.
std::string FlatText(const DramCheck& check);

// Whether a meter is a counter of memory: one that such a check is about.
bool IsCountedDram(const Meter& meter);

// Keeps what was found out until the next start of the host, in place of what was found out before;
// also that it is unknown, where nothing is known from before: a check that finds nothing takes
// nothing back, and one that was none (`cause`) is not kept. What root finds out is kept in
// HostDirectory, where there is one, for all users; what another user finds out is kept for that
// user alone, in RuntimeDirectory. Of the two the later one holds, of each domain.
Status KeepDramChecks(const std::string& root, const std::vector<DramCheck>& checks);
// Doubts domains of which a check that was kept said that they are flat. Which check there was of a
// domain of memory becomes one of its facts, "memory_load": "rises", "flat", "not checked".
void TakeDramChecks(const std::string& root, std::vector<Meter>* meters);
// What is kept of a domain.
std::optional<DramCheck> KeptDramCheck(const std::string& root, const std::string& id);
// Whether there are counters of memory of which nothing is kept.
bool HasUncheckedDram(const std::string& root, const std::vector<Meter>& meters);

// For LockDramChecks: longer than some processes that start together need, one after the other.
inline constexpr int64_t kWaitForChecksNs = 30 * kNsPerSecond;

// Keeps out others who check, for beside their load memory is not at rest: those of all users where
// there is a HostDirectory, else those of this user. kPermissionDenied where another one still
// checks after `wait_ns`.
Result<std::unique_ptr<DirectoryLock>> LockDramChecks(const std::string& root, int64_t wait_ns);

// Whether LoadMemory would reach all memory of this host: every CPU is this process's, so that no
// socket is left out, and enough memory is free for more than caches hold.
bool CanLoadAllMemory();
// Writes to memory on all CPUs (at most 32 threads, an eighth of the free memory) for that long.
// Returns the CPU time that it got, of that of as many CPUs: less where it may not use all of them,
// under a quota (cpu.max of its control group or one above), or beside others who use them.
double LoadMemory(int64_t duration_ns);

}  // namespace emlio::energy

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emlio/base/status.h"
#include "emlio/energy/meter.h"

namespace emlio::energy {

// One measurement a host, however many processes want it (METRICS.md section 7): of those that
// share a file the elected one reads the counters and writes down what it read; the others take it
// from there. When the elected one ends, however it ends, the next one to sample takes its place,
// and since counters go on counting nothing is lost but those of perf, which are each process's
// own: they begin anew, and the time in between is void.
class HostShare {
 public:
  enum class Role { kElected, kFollower };

  // In the user's runtime directory, of this start of the host; `what` tells apart measurements
  // that cannot share: other counters, another interval. An error when there is no safe place for
  // the file: whoever gets it measures alone.
  static Result<std::shared_ptr<HostShare>> Join(const std::string& boot_id,
                                                 const std::string& what);
  // In that file.
  static Result<std::shared_ptr<HostShare>> JoinFile(const std::string& path);
  ~HostShare();
  HostShare(const HostShare&) = delete;
  HostShare& operator=(const HostShare&) = delete;

  // Stands for election unless elected.
  Role Elect();
  Role role() const { return role_; }

  // A reading as it is written down.
  struct Reading {
    uint64_t value = 0;
    int64_t taken_ns = 0;
    bool ok = false;
    int64_t update_period_ns = 0;  // of its domain, as whoever reads it found out; 0: not known
  };
  // The place of a domain in the file; -1 when there is none left.
  int Slot(const std::string& domain);
  void Write(int slot, const Reading& reading);
  // None was ever written, or it is being written right now: !ok.
  Reading Read(int slot) const;

 private:
  HostShare(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
  std::atomic<Role> role_{Role::kFollower};
};

// A directory of this user and this start of the system, for what processes tell each other; an
// error when there is none that only the user can have made.
Result<std::string> RuntimeDirectory();

// "run/emlio" below `root`, for what root tells all users of a host until its next start: made when
// it is missing and this process is root's. An error when it is not there, or when others than root
// may write to it.
Result<std::string> HostDirectory(const std::string& root);

// Sets Domain::update_period_ns where the elected process knows it.
void TakeUpdatePeriods(HostShare& share, std::vector<Meter>* meters);

// The same meters, whose counters are read by whoever is elected.
std::vector<Meter> ShareMeters(std::shared_ptr<HostShare> share, std::vector<Meter> meters);

}  // namespace emlio::energy

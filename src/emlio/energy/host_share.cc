// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/host_share.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "emlio/base/clock.h"
#include "emlio/base/hash128.h"

namespace emlio::energy {
namespace {

constexpr int kMaxSlots = 1024;
constexpr uint64_t kVersion = 0x656d6c696f2d3200;  // in every slot
constexpr uint64_t kMix = 0x9e3779b97f4a7c15;

// One domain in the file. Readers see one that is being written by its check.
struct SlotRecord {
  std::array<char, 88> domain;
  int64_t update_period_ns;
  uint64_t value;
  int64_t taken_ns;
  uint64_t ok;
  uint64_t check;
};
static_assert(sizeof(SlotRecord) == 128);

uint64_t CheckOf(const SlotRecord& record) {
  uint64_t check = kVersion;
  for (const uint64_t part : {record.value, static_cast<uint64_t>(record.taken_ns), record.ok,
                              static_cast<uint64_t>(record.update_period_ns)}) {
    check = (check ^ part) * kMix;
  }
  return check;
}

off_t Place(int slot) { return static_cast<off_t>(slot) * static_cast<off_t>(sizeof(SlotRecord)); }

class SharedCounter : public Counter {
 public:
  SharedCounter(std::shared_ptr<HostShare> share, int slot, Meter meter)
      : share_(std::move(share)),
        slot_(slot),
        update_period_ns_(meter.domain.update_period_ns),
        counter_(std::move(meter.counter)) {}

  Result<uint64_t> Read() override {
    if (share_->Elect() == HostShare::Role::kElected) {
      const int64_t before_ns = SystemClock().NowNs();
      auto value = counter_->Read();
      taken_ns_ = before_ns + (SystemClock().NowNs() - before_ns) / 2;
      share_->Write(slot_, {value.ok() ? *value : 0, taken_ns_, value.ok(), update_period_ns_});
      return value;
    }
    const HostShare::Reading reading = share_->Read(slot_);
    // Of another process's clock, which is the same one. Never back: that process may be a new one.
    taken_ns_ = std::max(taken_ns_, reading.taken_ns);
    if (!reading.ok || reading.taken_ns < taken_ns_) {
      taken_ns_ = SystemClock().NowNs();
      return Unavailable("the process that measures this host has not read it");
    }
    return reading.value;
  }
  int64_t taken_ns() const override { return taken_ns_; }

 private:
  const std::shared_ptr<HostShare> share_;
  const int slot_;
  const int64_t update_period_ns_;
  const std::unique_ptr<Counter> counter_;
  int64_t taken_ns_ = 0;
};

}  // namespace

Result<std::string> RuntimeDirectory() {
  std::string path;
  if (const char* given = std::getenv("XDG_RUNTIME_DIR"); given != nullptr && *given == '/') {
    path = std::string(given) + "/emlio";
  } else {
    path = fmt::format("/tmp/emlio-{}", geteuid());
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, path);
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 022) != 0) {
    return PermissionDenied(fmt::format("{} is not this user's own", path));
  }
  return path;
}

Result<std::string> HostDirectory(const std::string& root) {
  const std::string path = root + "run/emlio";
  if (geteuid() == 0 && mkdir(path.c_str(), 0755) == 0 && chmod(path.c_str(), 0755) != 0) {
    return ErrnoStatus(errno, path);
  }
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return ErrnoStatus(errno, path);
  if (!S_ISDIR(status.st_mode) || status.st_uid != 0 || (status.st_mode & 022) != 0) {
    return PermissionDenied(fmt::format("{} is not root's own", path));
  }
  return path;
}

Result<std::shared_ptr<HostShare>> HostShare::Join(const std::string& boot_id,
                                                   const std::string& what) {
  EMLIO_ASSIGN_OR_RETURN(const std::string directory, RuntimeDirectory());
  // Processes of another version write other slots: they have a file of their own.
  const std::string key = fmt::format("{:x}\n{}\n{}", kVersion, boot_id, what);
  return JoinFile(fmt::format("{}/energy-{}", directory, ToHex(Xxh3(key.data(), key.size()))));
}

Result<std::shared_ptr<HostShare>> HostShare::JoinFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return ErrnoStatus(errno, path);
  auto share = std::shared_ptr<HostShare>(new HostShare(path, fd));
  share->Elect();
  return share;
}

HostShare::~HostShare() { close(fd_); }

HostShare::Role HostShare::Elect() {
  if (role_ == Role::kElected) return role_;
  // A lock of the process: it ends with it, and a child of fork does not have it.
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = Place(kMaxSlots);  // behind what is read
  lock.l_len = 1;
  if (fcntl(fd_, F_SETLK, &lock) == 0) role_ = Role::kElected;
  return role_;
}

int HostShare::Slot(const std::string& domain) {
  SlotRecord record{};
  if (domain.empty() || domain.size() >= record.domain.size()) return -1;
  // Whoever comes first writes the name; two at once write the same names in the same order, for
  // they have found the same counters.
  for (int slot = 0; slot < kMaxSlots; ++slot) {
    if (pread(fd_, &record, sizeof record, Place(slot)) != sizeof record ||
        record.domain[0] == '\0') {
      record = {};
      std::memcpy(record.domain.data(), domain.data(), domain.size());
      return pwrite(fd_, &record, sizeof record, Place(slot)) == sizeof record ? slot : -1;
    }
    record.domain.back() = '\0';
    if (domain == record.domain.data()) return slot;
  }
  return -1;
}

void HostShare::Write(int slot, const Reading& reading) {
  SlotRecord record{};
  record.value = reading.value;
  record.taken_ns = reading.taken_ns;
  record.ok = reading.ok ? 1 : 0;
  record.update_period_ns = reading.update_period_ns;
  record.check = CheckOf(record);
  // The name stays. A full disk is noticed by the others: nothing new comes.
  constexpr size_t kName = sizeof record.domain;
  [[maybe_unused]] const ssize_t written =
      pwrite(fd_, reinterpret_cast<const char*>(&record) + kName, sizeof record - kName,
             Place(slot) + static_cast<off_t>(kName));
}

HostShare::Reading HostShare::Read(int slot) const {
  SlotRecord record{};
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (pread(fd_, &record, sizeof record, Place(slot)) != sizeof record) return {};
    if (record.check != CheckOf(record)) continue;
    return {record.value, record.taken_ns, record.ok == 1, record.update_period_ns};
  }
  return {};
}

void TakeUpdatePeriods(HostShare& share, std::vector<Meter>* meters) {
  for (Meter& meter : *meters) {
    const int slot = meter.counter == nullptr ? -1 : share.Slot(meter.domain.id);
    if (slot >= 0) meter.domain.update_period_ns = share.Read(slot).update_period_ns;
  }
}

std::vector<Meter> ShareMeters(std::shared_ptr<HostShare> share, std::vector<Meter> meters) {
  for (Meter& meter : meters) {
    if (meter.counter == nullptr) continue;
    const int slot = share->Slot(meter.domain.id);
    if (slot < 0) continue;
    Meter own{meter.domain, std::move(meter.counter)};
    meter.counter = std::make_unique<SharedCounter>(share, slot, std::move(own));
  }
  return meters;
}

}  // namespace emlio::energy

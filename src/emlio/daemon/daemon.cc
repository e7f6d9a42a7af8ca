// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/daemon.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <thread>

#include "emlio/base/clock.h"
#include "emlio/base/log.h"
#include "emlio/base/mutex.h"
#include "emlio/base/system_limits.h"
#include "emlio/base/thread.h"
#include "emlio/daemon/router.h"
#include "emlio/transport/endpoint.h"
#include "fmt/format.h"

namespace emlio::daemon {
namespace {

using DatasetMap = std::map<std::string, std::shared_ptr<const dataset::Dataset>>;

Status CheckRoots(const dataset::Dataset& dataset, const std::vector<std::string>& roots) {
  namespace fs = std::filesystem;
  if (roots.empty()) return OkStatus();
  std::vector<fs::path> real_roots;
  for (const std::string& root : roots) {
    std::error_code error;
    real_roots.push_back(fs::canonical(root, error));
    if (error) return ErrnoStatus(error.value(), fmt::format("cannot use root {}", root));
  }
  for (size_t shard = 0; shard < dataset.manifest().shards().size(); ++shard) {
    const std::string& path = dataset.path(static_cast<uint32_t>(shard));
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error) return ErrnoStatus(error.value(), fmt::format("cannot resolve {}", path));
    const bool inside =
        std::any_of(real_roots.begin(), real_roots.end(), [&](const fs::path& root) {
          return std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first ==
                 root.end();
        });
    if (!inside) {
      return PermissionDenied(fmt::format("data set '{}': {} lies outside the configured roots",
                                          dataset.name(), real.string()));
    }
  }
  return OkStatus();
}

Status CheckOptions(const DaemonOptions& options) {
  if (options.max_chunk_bytes < 4096 || options.max_chunk_bytes > wire::kMaxChunkPayloadBytes) {
    return InvalidArgument(fmt::format("max_chunk_bytes is {}; 4096 to {} are possible",
                                       options.max_chunk_bytes, wire::kMaxChunkPayloadBytes));
  }
  if (options.send_buffer_bytes < 2 * uint64_t{options.max_chunk_bytes}) {
    return InvalidArgument(
        fmt::format("a send buffer of {} bytes (--send-buffer-mb) is too small: it must hold two "
                    "chunks of {} bytes",
                    options.send_buffer_bytes, options.max_chunk_bytes));
  }
  return CheckThreadCount("gather_threads", options.gather_threads);
}

// All data sets together may keep one in so many of the descriptors.
constexpr uint64_t kShareOfOpenFiles = 8;

}  // namespace

class Daemon::Impl {
 public:
  Impl(std::unique_ptr<transport::Listener> listener, DatasetMap datasets,
       const DaemonOptions& options)
      : datasets_(datasets), router_(std::move(listener), std::move(datasets), options) {}
  Status Start() {
    EMLIO_ASSIGN_OR_RETURN(thread_, Thread::Start("emlio-router", [this](std::stop_token) {
                             Status status = router_.Run();
                             MutexLock lock(mu_);
                             status_ = std::move(status);
                             ended_ = true;
                             changed_.NotifyAll();
                           }));
    return OkStatus();
  }
  ~Impl() {
    router_.Stop(0);
    thread_.Join();
  }

  Status Wait() {
    MutexLock lock(mu_);
    while (!ended_) changed_.Wait(mu_);
    return status_;
  }
  Status Shutdown(int64_t deadline_ms) {
    router_.Stop(SystemClock().NowNs() + deadline_ms * kNsPerMs);
    EMLIO_RETURN_IF_ERROR(Wait());
    return router_.all_ended() ? OkStatus()
                               : TimeoutError(
                                     "the deadline passed with sessions still running; "
                                     "they were told and cut off");
  }
  const Router& router() const { return router_; }
  const DatasetMap& datasets() const { return datasets_; }

 private:
  const DatasetMap datasets_;
  Router router_;
  Mutex mu_;
  CondVar changed_;
  bool ended_ EMLIO_GUARDED_BY(mu_) = false;
  Status status_ EMLIO_GUARDED_BY(mu_);
  Thread thread_;
};

Result<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options) {
  if (options.bind.find(':') == std::string::npos) {
    return InvalidArgument(fmt::format("'{}' (--bind) is not HOST:PORT", options.bind));
  }
  if (!options.insecure && !transport::IsLoopback(options.bind)) {
    return PermissionDenied(
        fmt::format("refusing to listen on {}: everybody who can connect could read the data. Bind "
                    "to a loopback "
                    "address, or say --insecure on a network that you trust",
                    options.bind));
  }
  if (options.datasets.empty()) return InvalidArgument("a daemon needs at least one data set");
  std::vector<std::shared_ptr<const dataset::Dataset>> opened;
  for (dataset::DatasetOptions dataset_options : options.datasets) {
    // Connections need some too.
    dataset_options.max_descriptors = MaxOpenFiles() / kShareOfOpenFiles / options.datasets.size();
    EMLIO_ASSIGN_OR_RETURN(auto dataset, dataset::Dataset::Open(dataset_options));
    EMLIO_RETURN_IF_ERROR(CheckRoots(*dataset, options.roots));
    opened.push_back(std::move(dataset));
  }
  transport::TransportOptions transport_options;
  transport_options.max_frame_bytes = wire::kMaxHeaderBytes;
  EMLIO_ASSIGN_OR_RETURN(auto listener, transport::ListenZmq(options.bind, transport_options));
  return StartOn(std::move(listener), std::move(opened), std::move(options));
}

Result<std::unique_ptr<Daemon>> Daemon::StartOn(
    std::unique_ptr<transport::Listener> listener,
    std::vector<std::shared_ptr<const dataset::Dataset>> datasets, DaemonOptions options) {
  EMLIO_RETURN_IF_ERROR(CheckOptions(options));
  // Receivers that stop reading can fill the send buffer: it must not get the process killed.
  const uint64_t fitting_bytes =
      std::max(UsableMemoryBytes() / 4, 2 * uint64_t{options.max_chunk_bytes});
  if (options.send_buffer_bytes > fitting_bytes) {
    LogWarning(
        "a send buffer of {} MiB does not fit into the memory that this process may use: {} "
        "MiB are taken",
        options.send_buffer_bytes >> 20, fitting_bytes >> 20);
    options.send_buffer_bytes = fitting_bytes;
  }
  if (options.total_read_ahead_bytes == 0) {
    options.total_read_ahead_bytes = UsableMemoryBytes() / 8;
  }
  if (options.gather_threads <= 0) {
    options.gather_threads = std::clamp<int>(std::thread::hardware_concurrency(), 1, 4);
  }
  DatasetMap by_name;
  for (auto& dataset : datasets) {
    const std::string name = dataset->name();
    if (!by_name.emplace(name, std::move(dataset)).second) {
      return InvalidArgument(fmt::format("two data sets are named '{}'", name));
    }
  }
  auto impl = std::make_unique<Impl>(std::move(listener), std::move(by_name), options);
  EMLIO_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::~Daemon() = default;

const std::string& Daemon::endpoint() const { return impl_->router().endpoint(); }

std::vector<std::shared_ptr<const dataset::Dataset>> Daemon::datasets() const {
  std::vector<std::shared_ptr<const dataset::Dataset>> all;
  for (const auto& [name, dataset] : impl_->datasets()) all.push_back(dataset);
  return all;
}

DaemonStats Daemon::stats() const { return impl_->router().stats(); }
Status Daemon::Wait() { return impl_->Wait(); }
Status Daemon::Shutdown(int64_t deadline_ms) { return impl_->Shutdown(deadline_ms); }

}  // namespace emlio::daemon

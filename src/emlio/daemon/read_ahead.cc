// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/read_ahead.h"

#include <utility>

#include "emlio/base/log.h"

namespace emlio::daemon {
namespace {

constexpr size_t kMaxQueued = 256;  // a chunk's worth each, mostly

}  // namespace

ReadAhead::ReadAhead() : queue_(kMaxQueued) {
  auto thread = Thread::Start("emlio-ahead", [this](std::stop_token stop) {
    while (std::optional<Task> task = queue_.Pop()) {
      if (stop.stop_requested()) return;
      task->dataset->ReadAhead(task->records);
    }
  });
  if (thread.ok()) {
    thread_ = *std::move(thread);
  } else {
    LogWarning("nothing is read ahead: {}", thread.status().message());
    queue_.Close();
  }
}

ReadAhead::~ReadAhead() {
  thread_.RequestStop();
  queue_.Close();
}

void ReadAhead::Submit(std::shared_ptr<const dataset::Dataset> dataset,
                       std::vector<dataset::RecordId> records) {
  (void)queue_.TryPush({std::move(dataset), std::move(records)});
}

}  // namespace emlio::daemon

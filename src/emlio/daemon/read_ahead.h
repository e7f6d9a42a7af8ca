// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "emlio/base/bounded_queue.h"
#include "emlio/base/thread.h"
#include "emlio/dataset/dataset.h"

namespace emlio::daemon {

// A thread that has the system read what the plans need next, so that the gather threads find it in
// memory: asking may wait for the device's queue, which the router must not.
class ReadAhead {
 public:
  ReadAhead();
  ~ReadAhead();  // drops what is queued

  // Never waits: when too much is queued already, this is left to the gather threads. For one
  // thread.
  void Submit(std::shared_ptr<const dataset::Dataset> dataset,
              std::vector<dataset::RecordId> records);

 private:
  struct Task {
    std::shared_ptr<const dataset::Dataset> dataset;
    std::vector<dataset::RecordId> records;
  };

  BoundedQueue<Task> queue_;
  Thread thread_;  // last: it uses the queue
};

}  // namespace emlio::daemon

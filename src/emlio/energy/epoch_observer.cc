// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/energy/epoch_observer.h"

namespace emlio::energy {

WindowLabel LabelOf(const EpochInfo& info) {
  WindowLabel label;
  label.name = info.side == EpochInfo::Side::kLoader ? kLoaderWindow : kDaemonWindow;
  label.epoch = static_cast<int64_t>(info.epoch);
  label.rank = info.rank;
  return label;
}

uint64_t EpochObserver::OnEpochBegin(const EpochInfo& info) {
  return monitor_->Open(LabelOf(info));
}

void EpochObserver::OnEpochEnd(uint64_t number, const EpochWork& work) {
  monitor_->Close(number, {work.records, work.bytes});
}

}  // namespace emlio::energy

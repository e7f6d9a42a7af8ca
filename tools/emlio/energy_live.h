// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emlio/energy/monitor.h"

namespace emlio::tool {

// One line of watts, at most `width` columns (0: any): "package-0 51.2 W  dram-0 n/a  total 61.2
// W".
std::string RenderWatts(const std::vector<energy::Domain>& domains,
                        const energy::WindowReport& window, int width);

// The watts of the last second on standard error: at a terminal one line that is redrawn, else a
// line every ten seconds. Does nothing unless `shown`.
class LiveView {
 public:
  LiveView(energy::Monitor& monitor, bool shown);
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  void Update();

 private:
  energy::Monitor& monitor_;
  const bool shown_;
  const bool at_terminal_;
  bool drawn_ = false;
  int64_t next_ns_ = 0;
};

}  // namespace emlio::tool

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "emlio/dataset/dataset.h"
#include "emlio/transport/transport.h"
#include "emlio/wire/messages.h"

namespace emlio::daemon {

// The control connection of one receiver, and what waits to be sent on it. Not thread-safe: the
// router thread owns it.
class ControlConnection {
 public:
  // `listener` outlives it.
  ControlConnection(transport::Listener* listener, transport::ConnectionId connection)
      : listener_(listener), connection_(connection) {}

  transport::ConnectionId connection() const { return connection_; }

  // Messages leave in order, at once if the network takes them.
  void Send(const wire::AnyMessage& message);
  // Sends the manifest, behind what waits already; its pages are made when there is room for them.
  void SendManifest(std::shared_ptr<const dataset::Dataset> dataset);
  // Sends what the network takes now.
  void SendBacklog();
  // It asks and does not read: to be given up. What was to be sent since is lost.
  bool is_overfull() const { return is_overfull_; }

  std::string agent;
  // Streams that a session of this receiver used last; 0: there was none.
  uint32_t streams_in_use = 0;
  int64_t last_heard_ns = 0;

 private:
  void Queue(const wire::AnyMessage& message);

  transport::Listener* const listener_;
  const transport::ConnectionId connection_;
  std::deque<transport::Message> backlog_;
  size_t backlog_bytes_ = 0;
  bool is_overfull_ = false;
  // Manifests asked for, and the next page of each.
  std::deque<std::pair<std::shared_ptr<const dataset::Dataset>, uint32_t>> manifests_;
};

}  // namespace emlio::daemon

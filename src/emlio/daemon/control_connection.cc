// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/daemon/control_connection.h"

#include "emlio/daemon/manifest_pages.h"

namespace emlio::daemon {
namespace {

// A Fill may be answered by as many Skips as it names slots.
constexpr size_t kMaxBacklogBytes = size_t{32} << 20;
constexpr size_t kMessageBytes = 256;  // what one takes beside its text
constexpr size_t kMaxManifests = 64;   // that one receiver may have asked for at once

}  // namespace

void ControlConnection::Send(const wire::AnyMessage& message) {
  if (backlog_bytes_ >= kMaxBacklogBytes) {
    is_overfull_ = true;
    return;
  }
  Queue(message);
  SendBacklog();
}

void ControlConnection::SendManifest(std::shared_ptr<const dataset::Dataset> dataset) {
  if (manifests_.size() >= kMaxManifests) {
    is_overfull_ = true;
    return;
  }
  manifests_.emplace_back(std::move(dataset), 0);
  SendBacklog();
}

void ControlConnection::Queue(const wire::AnyMessage& message) {
  transport::Message out;
  out.header = Buffer::Of(wire::Encode(message));
  backlog_bytes_ += out.header.size() + kMessageBytes;
  backlog_.push_back(std::move(out));
}

void ControlConnection::SendBacklog() {
  while (true) {
    if (backlog_.empty()) {
      if (manifests_.empty()) return;
      auto& [dataset, page] = manifests_.front();
      Queue(MakeManifestPage(dataset->name(), dataset->manifest(), page));
      if (++page == ManifestPageCount(dataset->manifest())) manifests_.pop_front();
    }
    const size_t bytes = backlog_.front().header.size() + kMessageBytes;
    const transport::SendResult sent = listener_->Send(connection_, &backlog_.front());
    if (sent == transport::SendResult::kFull) return;
    backlog_.pop_front();
    backlog_bytes_ -= bytes;
  }
}

}  // namespace emlio::daemon

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "emlio/base/thread.h"
#include "emlio/energy_agent/messages.h"
#include "emlio/transport/transport.h"

namespace emlio::energy_agent::testing {

// Answers every message as it is told to, and probes.
class ScriptedAgent {
 public:
  // Called on the agent's thread.
  using Script = std::function<std::vector<AnyMessage>(const AnyMessage& message)>;
  explicit ScriptedAgent(Script script)
      : script_(std::move(script)), listener_(*transport::ListenZmq("127.0.0.1:0", {})) {
    thread_ = Thread("scripted", [this](std::stop_token stop) { Run(stop); });
  }
  ~ScriptedAgent() {
    thread_.RequestStop();
    listener_->Wake();
    thread_.Join();
  }
  const std::string& endpoint() const { return listener_->endpoint(); }
  // Ends all connections, once it has answered what came. May be called from the script.
  void Drop() {
    drop_ = true;
    listener_->Wake();
  }

 private:
  void Run(const std::stop_token& stop) {
    std::set<transport::ConnectionId> clients;
    while (!stop.stop_requested()) {
      std::vector<transport::Event> events;
      ASSERT_TRUE(listener_->Poll(50, &events).ok());
      for (const transport::Event& event : events) {
        if (event.kind != transport::Event::Kind::kMessage) continue;
        clients.insert(event.connection);
        Answer(event);
      }
      if (!drop_.exchange(false)) continue;
      for (const transport::ConnectionId client : clients) listener_->Forget(client);
      clients.clear();
    }
  }
  void Answer(const transport::Event& event) {
    auto message = Decode({event.message.header.data(), event.message.header.size()});
    ASSERT_TRUE(message.ok()) << message.status().ToString();
    auto answers = script_(*message);
    if (const auto* probe = std::get_if<Probe>(&*message)) {
      answers.emplace_back(Probed{probe->nonce, {}});
    }
    for (const AnyMessage& answer : answers) {
      transport::Message out;
      out.header = Buffer::Of(Encode(answer));
      (void)listener_->Send(event.connection, &out);  // who asked may have gone
    }
  }

  const Script script_;
  const std::unique_ptr<transport::Listener> listener_;
  std::atomic<bool> drop_{false};
  Thread thread_;
};

}  // namespace emlio::energy_agent::testing

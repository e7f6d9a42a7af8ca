// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emlio/base/mutex.h"
#include "emlio/transport/transport.h"

namespace emlio::transport {
namespace {

constexpr size_t kMaxEvents = 64;

// What both ends share: an inbox for each, and the connections between them. Messages move, nothing
// is copied. Callbacks run after the lock was given back.
class Hub {
 public:
  enum Side { kListener = 0, kDialer = 1 };

  explicit Hub(int high_water_messages)
      : high_water_messages_(static_cast<size_t>(std::max(high_water_messages, 1))) {}
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  ConnectionId Dial();
  Status Poll(Side side, int timeout_ms, std::vector<Event>* events);
  SendResult Send(Side side, ConnectionId to, Message* message);
  // `side` closes the connection: what is on its way to it is dropped, what it sent arrives.
  void Close(Side side, ConnectionId connection);
  // `side` goes away: all its connections close.
  void Shutdown(Side side);
  void Wake(Side side);

 private:
  struct Connection {
    size_t queued[2] = {0, 0};  // messages in the inbox of each side
    bool heard = false;         // the listener was sent a message: it knows the connection
  };
  struct End {
    std::deque<Event> inbox;
    CondVar changed;
    bool woken = false;
    bool waits_for_room = false;  // a Send was refused; the other side's Poll wakes it
    bool gone = false;
  };

  void Post(Side to, Event event) EMLIO_REQUIRES(mu_) {
    ends_[to].inbox.push_back(std::move(event));
    ends_[to].changed.NotifyOne();
  }
  // Takes everything of the connection out of the inbox of `side`.
  void Purge(Side side, ConnectionId id, std::vector<Message>* dropped) EMLIO_REQUIRES(mu_);
  void TellLost(Side to, ConnectionId id, const Connection& connection) EMLIO_REQUIRES(mu_);
  static Side Other(Side side) { return side == kListener ? kDialer : kListener; }
  static void Release(std::vector<Message>* messages);

  const size_t high_water_messages_;
  Mutex mu_;
  End ends_[2] EMLIO_GUARDED_BY(mu_);
  std::unordered_map<ConnectionId, Connection> connections_ EMLIO_GUARDED_BY(mu_);
  ConnectionId next_id_ EMLIO_GUARDED_BY(mu_) = 1;
};

void Hub::Release(std::vector<Message>* messages) {
  for (Message& message : *messages) {
    const SentCallback on_sent = message.on_sent;
    message = Message();
    if (on_sent.function != nullptr) on_sent.function(on_sent.context);
  }
}

ConnectionId Hub::Dial() {
  MutexLock lock(mu_);
  const ConnectionId id = next_id_++;
  Event event;
  event.connection = id;
  if (ends_[kListener].gone) {
    event.kind = Event::Kind::kLost;
    event.reason = Unavailable("the in-process listener is closed");
  } else {
    event.kind = Event::Kind::kConnected;
    connections_.emplace(id, Connection());
  }
  Post(kDialer, std::move(event));
  return id;
}

Status Hub::Poll(Side side, int timeout_ms, std::vector<Event>* events) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  std::vector<SentCallback> taken;
  {
    MutexLock lock(mu_);
    End& end = ends_[side];
    while (end.inbox.empty() && !end.woken && timeout_ms != 0) {
      if (timeout_ms < 0) {
        end.changed.Wait(mu_);
      } else if (!end.changed.WaitUntil(mu_, deadline)) {
        break;
      }
    }
    end.woken = false;
    for (size_t i = 0; i < kMaxEvents && !end.inbox.empty(); ++i) {
      Event event = std::move(end.inbox.front());
      end.inbox.pop_front();
      if (event.kind == Event::Kind::kMessage) {
        if (auto it = connections_.find(event.connection); it != connections_.end()) {
          --it->second.queued[side];
        }
        if (event.message.on_sent.function != nullptr) {
          taken.push_back(std::exchange(event.message.on_sent, SentCallback()));
        }
      }
      events->push_back(std::move(event));
    }
    End& other = ends_[Other(side)];
    if (std::exchange(other.waits_for_room, false)) {
      other.woken = true;
      other.changed.NotifyOne();
    }
  }
  for (const SentCallback& on_sent : taken) on_sent.function(on_sent.context);
  return OkStatus();
}

SendResult Hub::Send(Side side, ConnectionId to, Message* message) {
  MutexLock lock(mu_);
  const auto it = connections_.find(to);
  if (it == connections_.end()) return SendResult::kGone;
  Connection& connection = it->second;
  const Side other = Other(side);
  if (connection.queued[other] >= high_water_messages_) {
    ends_[side].waits_for_room = true;
    return SendResult::kFull;
  }
  ++connection.queued[other];
  if (other == kListener) connection.heard = true;
  Event event;
  event.connection = to;
  event.message = std::move(*message);
  *message = Message();
  Post(other, std::move(event));
  return SendResult::kSent;
}

void Hub::Purge(Side side, ConnectionId id, std::vector<Message>* dropped) {
  std::deque<Event> kept;
  for (Event& event : ends_[side].inbox) {
    if (event.connection == id) {
      dropped->push_back(std::move(event.message));
    } else {
      kept.push_back(std::move(event));
    }
  }
  ends_[side].inbox = std::move(kept);
}

void Hub::TellLost(Side to, ConnectionId id, const Connection& connection) {
  // A listener learns of a connection by its first message, so it need not learn of the end of one
  // that never sent any.
  if (to == kListener && !connection.heard) return;
  Event event;
  event.kind = Event::Kind::kLost;
  event.connection = id;
  event.reason = Unavailable(to == kDialer ? "the in-process listener closed the connection"
                                           : "the in-process dialer closed the connection");
  Post(to, std::move(event));
}

void Hub::Close(Side side, ConnectionId id) {
  std::vector<Message> dropped;
  {
    MutexLock lock(mu_);
    // Also when the other side closed first: nothing may follow a Close.
    Purge(side, id, &dropped);
    if (auto it = connections_.find(id); it != connections_.end()) {
      TellLost(Other(side), id, it->second);
      connections_.erase(it);
    }
  }
  Release(&dropped);
}

void Hub::Shutdown(Side side) {
  std::vector<Message> dropped;
  {
    MutexLock lock(mu_);
    for (const auto& [id, connection] : connections_) TellLost(Other(side), id, connection);
    connections_.clear();
    for (Event& event : ends_[side].inbox) dropped.push_back(std::move(event.message));
    ends_[side].inbox.clear();
    ends_[side].gone = true;
  }
  Release(&dropped);
}

void Hub::Wake(Side side) {
  MutexLock lock(mu_);
  ends_[side].woken = true;
  ends_[side].changed.NotifyOne();
}

class InprocListener final : public Listener {
 public:
  explicit InprocListener(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}
  ~InprocListener() override { hub_->Shutdown(Hub::kListener); }
  const std::string& endpoint() const override { return endpoint_; }
  Status Poll(int timeout_ms, std::vector<Event>* events) override {
    return hub_->Poll(Hub::kListener, timeout_ms, events);
  }
  SendResult Send(ConnectionId to, Message* message) override {
    return hub_->Send(Hub::kListener, to, message);
  }
  void Forget(ConnectionId connection) override { hub_->Close(Hub::kListener, connection); }
  std::optional<LinkState> StateOf(ConnectionId) const override { return std::nullopt; }
  void Wake() override { hub_->Wake(Hub::kListener); }

 private:
  const std::shared_ptr<Hub> hub_;
  const std::string endpoint_ = "inproc";
};

class InprocDialer final : public Dialer {
 public:
  explicit InprocDialer(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}
  ~InprocDialer() override { hub_->Shutdown(Hub::kDialer); }
  Result<ConnectionId> Dial(const std::string& /*endpoint*/, int /*deadline_ms*/) override {
    return hub_->Dial();
  }
  Status Poll(int timeout_ms, std::vector<Event>* events) override {
    return hub_->Poll(Hub::kDialer, timeout_ms, events);
  }
  SendResult Send(ConnectionId to, Message* message) override {
    return hub_->Send(Hub::kDialer, to, message);
  }
  void Close(ConnectionId connection) override { hub_->Close(Hub::kDialer, connection); }
  std::optional<LinkState> StateOf(ConnectionId) const override { return std::nullopt; }
  void Wake() override { hub_->Wake(Hub::kDialer); }

 private:
  const std::shared_ptr<Hub> hub_;
};

}  // namespace

InprocPair MakeInproc(TransportOptions options) {
  auto hub = std::make_shared<Hub>(options.high_water_messages);
  return {std::make_unique<InprocListener>(hub), std::make_unique<InprocDialer>(hub)};
}

}  // namespace emlio::transport

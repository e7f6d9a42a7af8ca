// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace emlio {

// One epoch of one rank, as the side that tells of it sees it.
struct EpochInfo {
  enum class Side {
    kLoader,  // from the start of a pass until its last batch was used up
    kDaemon,  // from the first chunk that was gathered until the last one was sent
  };
  Side side = Side::kLoader;
  std::string_view dataset;
  uint64_t epoch = 0;
  uint32_t rank = 0;
};

struct EpochWork {
  uint64_t records = 0;  // handed out, or sent
  uint64_t bytes = 0;    // of payload
  bool complete = false;
};

// Somebody who wants to know what loaders and daemons are at: the energy monitor does. Called a few
// times an epoch, never once a record or chunk, by EMLIO's threads, with their locks held: an
// observer returns within microseconds, does not throw and does not call back.
class Observer {
 public:
  virtual ~Observer() = default;
  // Returns a number of the observer's choice, which names this epoch when it ends.
  virtual uint64_t OnEpochBegin(const EpochInfo& info) = 0;
  virtual void OnEpochEnd(uint64_t number, const EpochWork& work) = 0;
  // A peer's host measures its energy; its agent answers there ("tcp://host:port").
  virtual void OnEnergyAgent(std::string_view endpoint) = 0;
  // The host of a peer ("tcp://host:port") has no such agent: what it uses is not known. `boot_id`
  // says which host it is; empty: not known. Of no use to an observer of one host alone.
  virtual void OnUnmeasuredPeer(std::string_view /*endpoint*/, std::string_view /*boot_id*/) {}
};

// Tells an observer of the epochs of one loader or session, of which several may be under way.
// Costs a comparison when there is no observer. One thread at a time.
class EpochWatch {
 public:
  explicit EpochWatch(std::shared_ptr<Observer> observer = nullptr)
      : observer_(std::move(observer)) {}
  ~EpochWatch() { EndAll(false); }
  EpochWatch(const EpochWatch&) = delete;
  EpochWatch& operator=(const EpochWatch&) = delete;

  bool enabled() const { return observer_ != nullptr; }
  // This epoch is under way: begins it unless it is.
  void At(const EpochInfo& info) {
    if (!enabled() || epochs_.contains(info.epoch)) return;
    epochs_[info.epoch].number = observer_->OnEpochBegin(info);
  }
  void Add(uint64_t epoch, uint64_t records, uint64_t bytes) {
    if (!enabled()) return;
    const auto found = epochs_.find(epoch);
    if (found == epochs_.end()) return;
    found->second.work.records += records;
    found->second.work.bytes += bytes;
  }
  // All epochs before that one are complete.
  void EndBefore(uint64_t epoch) { End(epochs_.lower_bound(epoch), true); }
  void EndAll(bool complete) { End(epochs_.end(), complete); }

 private:
  struct Epoch {
    uint64_t number = 0;
    EpochWork work;
  };
  using Epochs = std::map<uint64_t, Epoch>;

  void End(Epochs::iterator until, bool complete) {
    for (auto epoch = epochs_.begin(); epoch != until; epoch = epochs_.erase(epoch)) {
      epoch->second.work.complete = complete;
      observer_->OnEpochEnd(epoch->second.number, epoch->second.work);
    }
  }

  std::shared_ptr<Observer> observer_;
  Epochs epochs_;
};

}  // namespace emlio

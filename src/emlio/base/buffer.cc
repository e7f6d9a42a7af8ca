// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "emlio/base/buffer.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace emlio {
namespace {

void* AllocateOrDie(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

Buffer Buffer::Of(std::vector<uint8_t> bytes) {
  auto* held = new std::vector<uint8_t>(std::move(bytes));
  return Buffer(
      held->data(), held->size(),
      [](void* context) { delete static_cast<std::vector<uint8_t>*>(context); }, held);
}

Buffer Buffer::CopyOf(const void* data, size_t size) {
  Buffer buffer = Allocate(size);
  if (size > 0) std::memcpy(buffer.data(), data, size);
  return buffer;
}

Buffer Buffer::Allocate(size_t size) {
  void* memory = AllocateOrDie(size);
  return Buffer(memory, size, [](void* context) { std::free(context); }, memory);
}

// A block is the memory of one buffer plus the reference that leads it home.
struct BufferPool::State {
  struct Block {
    std::shared_ptr<State> home;  // set while the block is out
    void* memory = nullptr;
  };

  explicit State(size_t idle_limit) : max_idle(idle_limit) {}
  ~State() {
    MutexLock lock(mu);
    for (Block* block : idle) Free(block);
  }
  static void Free(Block* block) {
    std::free(block->memory);
    delete block;
  }
  static void GiveBack(void* context) {
    auto* block = static_cast<Block*>(context);
    // Held until the lock is released: this may be the last reference to the state.
    const std::shared_ptr<State> state = std::move(block->home);
    MutexLock lock(state->mu);
    if (state->closed || state->idle.size() >= state->max_idle) {
      Free(block);
    } else {
      state->idle.push_back(block);
    }
  }

  const size_t max_idle;
  Mutex mu;
  std::vector<Block*> idle EMLIO_GUARDED_BY(mu);
  bool closed EMLIO_GUARDED_BY(mu) = false;
};

BufferPool::BufferPool(size_t buffer_bytes, size_t max_idle)
    : buffer_bytes_(buffer_bytes), state_(std::make_shared<State>(max_idle)) {}

BufferPool::~BufferPool() {
  MutexLock lock(state_->mu);
  state_->closed = true;
  for (State::Block* block : state_->idle) State::Free(block);
  state_->idle.clear();
}

Buffer BufferPool::Take() {
  State::Block* block = nullptr;
  {
    MutexLock lock(state_->mu);
    if (!state_->idle.empty()) {
      block = state_->idle.back();
      state_->idle.pop_back();
    }
  }
  if (block == nullptr) {
    block = new State::Block;
    block->memory = AllocateOrDie(buffer_bytes_);
  }
  block->home = state_;
  return Buffer(block->memory, buffer_bytes_, &State::GiveBack, block);
}

}  // namespace emlio

// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "emlio/base/mutex.h"

namespace emlio {

// Owns a run of bytes, whoever made them: a pooled buffer, a received message, a vector.
// Move-only; the release function runs once, on whichever thread drops the buffer, and must
// neither block nor throw.
class Buffer {
 public:
  using Release = void (*)(void* context);

  Buffer() = default;
  // Takes over `size` bytes at `data`; `release(context)` gives them back. `release` may be null.
  Buffer(void* data, size_t size, Release release, void* context)
      : data_(static_cast<uint8_t*>(data)), size_(size), release_(release), context_(context) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      release_ = std::exchange(other.release_, nullptr);
      context_ = std::exchange(other.context_, nullptr);
    }
    return *this;
  }
  ~Buffer() { Reset(); }

  // Takes over the vector's bytes.
  static Buffer Of(std::vector<uint8_t> bytes);
  // A fresh buffer that holds a copy of the bytes.
  static Buffer CopyOf(const void* data, size_t size);
  // A fresh buffer of `size` bytes, not initialised.
  static Buffer Allocate(size_t size);

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Cuts the visible size; the memory stays. REQUIRES: size <= size().
  void Truncate(size_t size) { size_ = size; }
  void Reset() {
    if (release_ != nullptr) std::exchange(release_, nullptr)(context_);
    data_ = nullptr;
    size_ = 0;
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  Release release_ = nullptr;
  void* context_ = nullptr;
};

// Hands out buffers of one fixed capacity and takes them back, so that their pages stay faulted in.
// Thread-safe. Buffers may outlive the pool object: they share its state. It does not limit how
// many are out (byte budgets of its users do that); it keeps at most `max_idle` for reuse.
class BufferPool {
 public:
  BufferPool(size_t buffer_bytes, size_t max_idle);
  ~BufferPool();

  // A buffer of buffer_bytes() capacity and size, contents unspecified.
  Buffer Take();
  size_t buffer_bytes() const { return buffer_bytes_; }

 private:
  struct State;
  const size_t buffer_bytes_;
  std::shared_ptr<State> state_;
};

}  // namespace emlio

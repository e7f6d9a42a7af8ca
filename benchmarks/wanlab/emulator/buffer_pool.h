// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace emlio::wanlab {

class BufferPool;

namespace internal {
struct Buffer {
  BufferPool* pool;
  Buffer* next_free;
  uint8_t* data;
  int references;
  int size_class;
};
}  // namespace internal

// A counted reference to a pooled buffer; empty when default-constructed. Copies share the buffer.
// Belongs to one thread, that of its pool, and must not outlive the pool.
class BufferRef {
 public:
  BufferRef() = default;
  explicit BufferRef(internal::Buffer* buffer) : buffer_(buffer) { ++buffer_->references; }
  BufferRef(const BufferRef& other) : buffer_(other.buffer_) {
    if (buffer_ != nullptr) ++buffer_->references;
  }
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() { Reset(); }

  void Reset();
  uint8_t* data() const { return buffer_ == nullptr ? nullptr : buffer_->data; }
  explicit operator bool() const { return buffer_ != nullptr; }

 private:
  internal::Buffer* buffer_ = nullptr;
};

// Buffers of a few sizes for packets on their way. The one that came back last is given out first:
// it is likely to be in the processor's cache, and memory in use is what was once held, no more.
// For one thread.
class BufferPool {
 public:
  // Headers, acknowledgements and MTU packets; small super-packets; any packet with its virtio-net
  // header.
  static constexpr size_t kClassBytes[] = {2048, 8192, 64 * 1024 + 512};
  static constexpr int kClasses = std::size(kClassBytes);
  static constexpr size_t kLargestBytes = kClassBytes[kClasses - 1];

  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A buffer of at least that size. REQUIRES: bytes <= kLargestBytes.
  BufferRef Get(size_t bytes);
  // Bytes of memory taken from the system.
  size_t reserved_bytes() const { return reserved_bytes_; }

 private:
  friend class BufferRef;
  void Grow(int size_class);

  struct Unmap {
    size_t size;
    void operator()(uint8_t* data) const;
  };
  internal::Buffer* free_[kClasses] = {};
  std::vector<std::unique_ptr<internal::Buffer[]>> buffers_;
  std::vector<std::unique_ptr<uint8_t, Unmap>> slabs_;
  size_t reserved_bytes_ = 0;
};

inline void BufferRef::Reset() {
  if (buffer_ != nullptr && --buffer_->references == 0) {
    internal::Buffer*& head = buffer_->pool->free_[buffer_->size_class];
    buffer_->next_free = head;
    head = buffer_;
  }
  buffer_ = nullptr;
}

}  // namespace emlio::wanlab

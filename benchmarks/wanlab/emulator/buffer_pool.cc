// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "buffer_pool.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace emlio::wanlab {
namespace {

// One huge page, where the system has them.
constexpr size_t kSlabBytes = 2 << 20;

}  // namespace

void BufferPool::Unmap::operator()(uint8_t* data) const { munmap(data, size); }

BufferRef BufferPool::Get(size_t bytes) {
  int size_class = 0;
  while (kClassBytes[size_class] < bytes) ++size_class;
  internal::Buffer*& head = free_[size_class];
  if (head == nullptr) Grow(size_class);
  internal::Buffer* buffer = head;
  head = buffer->next_free;
  return BufferRef(buffer);
}

void BufferPool::Grow(int size_class) {
  void* memory = mmap(nullptr, kSlabBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    // What is held is limited (LinkModel::kMaxHeldBytes), so the system has no memory at all.
    std::fputs("wanlab_emulator: out of memory for packets on their way\n", stderr);
    std::abort();
  }
  madvise(memory, kSlabBytes, MADV_HUGEPAGE);
  slabs_.emplace_back(static_cast<uint8_t*>(memory), Unmap{kSlabBytes});
  reserved_bytes_ += kSlabBytes;

  const size_t size = kClassBytes[size_class];
  const size_t count = kSlabBytes / size;
  auto buffers = std::make_unique<internal::Buffer[]>(count);
  for (size_t i = 0; i < count; ++i) {
    buffers[i] = {this, free_[size_class], slabs_.back().get() + i * size, 0, size_class};
    free_[size_class] = &buffers[i];
  }
  buffers_.push_back(std::move(buffers));
}

}  // namespace emlio::wanlab

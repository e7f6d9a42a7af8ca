// SPDX-FileCopyrightText: 2026 The EMLIO Authors
// SPDX-License-Identifier: Apache-2.0
#include "link_thread.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "emlio/base/clock.h"

namespace emlio::wanlab {
namespace {

// Frames read before those that are due are delivered: half a megabyte, which stays in the cache of
// a core on a link without delay.
constexpr int kFramesAtOnce = 8;
// The kernel rounds waiting up by a thousandth; in steps of this length that is not noticed.
constexpr int64_t kLongestWaitNs = 5 * kNsPerMs;

// Frames are delivered up to this much early, so that one wake-up serves several.
constexpr int64_t kEarlyNs = 10'000;
// On a long link, what comes or falls due within this share of the delay, or this time, is handled
// by one wake-up. It saves a quarter of the processor time at 1 Gbit/s; frames are read late by as
// much as others are delivered early, so that the round trip stays right.
constexpr int64_t kDelayOverTick = 100;
constexpr int64_t kLongestTickNs = 100'000;

int64_t NowNs() { return SystemClock().NowNs(); }

std::string RaisePriority() {
  sched_param parameter{};
  parameter.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_RR, &parameter) == 0) return "realtime";
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  if (setpriority(PRIO_PROCESS, thread, -10) == 0) return "nice";
  return "normal";
}

}  // namespace

Result<std::unique_ptr<LinkThread>> LinkThread::Start(int number, TunDevice storage,
                                                      TunDevice compute, uint64_t seed) {
  std::unique_ptr<LinkThread> link(new LinkThread());
  link->storage_ = std::move(storage);
  link->compute_ = std::move(compute);
  link->waker_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (link->waker_.get() < 0) return ErrnoStatus(errno, "eventfd");
  const int storage_fd = link->storage_.fd.get();
  const int compute_fd = link->compute_.fd.get();
  const int64_t now_ns = NowNs();
  for (const Direction direction : kDirections) {
    Path& path = link->paths_[direction];
    path.from = direction == kToCompute ? storage_fd : compute_fd;
    path.to = direction == kToCompute ? compute_fd : storage_fd;
    path.model = std::make_unique<LinkModel>(seed * 2 + static_cast<uint64_t>(direction));
    path.model->Configure(now_ns, DirectionSettings());
  }
  LinkThread* self = link.get();
  EMLIO_ASSIGN_OR_RETURN(link->thread_,
                         Thread::Start("wanlab-link-" + std::to_string(number),
                                       [self](const std::stop_token& stop) { self->Run(stop); }));
  MutexLock lock(link->mutex_);
  while (!link->started_) link->changed_.Wait(link->mutex_);
  return link;
}

LinkThread::~LinkThread() {
  if (!thread_.joinable()) return;
  thread_.RequestStop();
  eventfd_write(waker_.get(), 1);
  thread_.Join();
}

void LinkThread::Call(const std::function<void(const View&)>& what) {
  MutexLock lock(mutex_);
  call_ = &what;
  called_ = true;
  eventfd_write(waker_.get(), 1);
  while (call_ != nullptr) changed_.Wait(mutex_);
}

void LinkThread::RunCall() {
  MutexLock lock(mutex_);
  if (call_ == nullptr) return;
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  counts_.cpu_ns = cpu.tv_sec * kNsPerSecond + cpu.tv_nsec;
  counts_.packet_memory_bytes = pool_.reserved_bytes();
  (*call_)(View{*paths_[kToCompute].model, *paths_[kToStorage].model,
                DroppedBeforeReading(storage_), DroppedBeforeReading(compute_), counts_});
  call_ = nullptr;
  changed_.NotifyAll();
}

void LinkThread::Run(const std::stop_token& stop) {
  {
    MutexLock lock(mutex_);
    priority_ = RaisePriority();
    prctl(PR_SET_TIMERSLACK, 1UL);
    started_ = true;
    changed_.NotifyAll();
  }
  for (Path& path : paths_) path.reading = pool_.Get(BufferPool::kLargestBytes);
  pollfd fds[] = {
      {storage_.fd.get(), POLLIN, 0}, {compute_.fd.get(), POLLIN, 0}, {waker_.get(), POLLIN, 0}};
  int64_t woke_ns = NowNs();
  while (!stop.stop_requested()) {
    bool more = false;
    for (Path& path : paths_) more |= Read(&path);
    for (Path& path : paths_) Deliver(&path);
    if (!more) {
      int64_t wait_ns = kLongestWaitNs;
      bool timed = false;
      const int64_t now_ns = NowNs();
      for (const Path& path : paths_) {
        const std::optional<int64_t> due_ns = path.model->NextDueNs();
        if (!due_ns) continue;
        timed = true;
        wait_ns = std::clamp<int64_t>(*due_ns - now_ns, 0, wait_ns);
      }
      if (const int64_t rest_ns = woke_ns + TickNs() - now_ns; rest_ns > 0) {
        const timespec rest{0, rest_ns};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, nullptr);
        wait_ns = std::max<int64_t>(0, wait_ns - rest_ns);
      }
      const timespec timeout{0, wait_ns};
      ppoll(fds, std::size(fds), timed ? &timeout : nullptr, nullptr);
      ++counts_.wake_ups;
      woke_ns = NowNs();
    }
    if (called_.exchange(false)) {
      eventfd_t ignored;
      (void)eventfd_read(waker_.get(), &ignored);
      RunCall();
    }
  }
  for (Path& path : paths_) path.reading.Reset();
}

int64_t LinkThread::TickNs() const {
  int64_t tick_ns = kLongestTickNs;
  for (const Path& path : paths_) {
    tick_ns = std::min(tick_ns, path.model->settings().delay_ns / kDelayOverTick);
  }
  return tick_ns;
}

bool LinkThread::Read(Path* path) {
  for (int i = 0; i < kFramesAtOnce; ++i) {
    const ssize_t size = read(path->from, path->reading.data(), BufferPool::kLargestBytes);
    if (size < static_cast<ssize_t>(sizeof(VirtioNetHeader))) return false;
    const auto frame_bytes = static_cast<uint32_t>(size);
    BufferRef frame = pool_.Get(frame_bytes);
    // What fits into a smaller buffer is copied, so that what is held takes about its own size.
    const bool moves = frame_bytes > BufferPool::kClassBytes[BufferPool::kClasses - 2];
    if (moves) {
      std::swap(frame, path->reading);
    } else {
      std::memcpy(frame.data(), path->reading.data(), frame_bytes);
    }
    const PacketShape shape = ShapeOf({frame.data(), frame_bytes});
    path->model->Offer(NowNs(), shape, [&](int first, int count) {
      return MakePiece(frame, frame_bytes, shape, first, count, &pool_);
    });
  }
  return true;
}

void LinkThread::Deliver(Path* path) {
  const int64_t early_ns = std::max(kEarlyNs, TickNs());
  while (std::optional<Piece> piece = path->model->Take(NowNs(), early_ns)) {
    const iovec parts[] = {
        {piece->headers.data(), piece->headers_bytes},
        {piece->body.data() + piece->body_offset, piece->body_bytes},
    };
    const bool whole = piece->headers_bytes == 0;
    if (writev(path->to, whole ? parts + 1 : parts, whole ? 1 : 2) < 0) {
      ++counts_.write_errors;
      counts_.last_write_errno = errno;
    }
  }
}

}  // namespace emlio::wanlab

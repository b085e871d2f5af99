#include "training/learning/slices/slice_barrier.h"

namespace starling::training {
namespace {

// Looks at the other parts before a part sleeps: some microseconds, about as long as it takes to wake a
// thread.
constexpr int kLooks = 10'000;

}  // namespace

bool SliceBarrier::wait() {
  std::uint64_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    round = round_;
    if (++arrived_ == parts_) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return true;
    }
  }
  const auto is_over = [&] { return round_ != round || stopped_; };
  for (int look = 0; look < kLooks && !is_over(); ++look) continue;
  if (!is_over()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, is_over);
  }
  return round_ != round;
}

void SliceBarrier::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

void SliceBarrier::reset() {
  const std::lock_guard lock(mutex_);
  arrived_ = 0;
  stopped_ = false;
}

}  // namespace starling::training

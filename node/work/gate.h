// Where a trainer's threads wait: for the end of a pause, for an instant, for a condition, or for a step that
// they may make. Stopping ends every wait. Conditions are checked under the gate's lock, so what they read is
// changed within change().
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/time.h"

namespace starling::node {

// Who pauses the training. It continues when none of them does.
enum class PausedBy : std::uint8_t { core = 1, owner = 2 };

class Gate {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Gate(std::size_t workers) : workers_(workers) {}

  // True for the first call.
  bool stop() {
    bool first = false;
    change([&] { first = !stopped_.exchange(true); });
    return first;
  }
  bool is_stopped() const { return stopped_; }

  void pause(PausedBy who) {
    change([&] { pauses_ = static_cast<std::uint8_t>(pauses_ | static_cast<std::uint8_t>(who)); });
  }
  void resume(PausedBy who) {
    change([&] { pauses_ = static_cast<std::uint8_t>(pauses_ & ~static_cast<std::uint8_t>(who)); });
  }
  bool is_paused(PausedBy who) const { return (pauses_ & static_cast<std::uint8_t>(who)) != 0; }
  bool is_open() const { return pauses_ == 0; }

  // Counts the discards: a step that began in an earlier era is dropped. A worker reads the era before
  // is_open(), and a pause precedes each discard. So no step of the new era begins before the pause ends.
  std::uint64_t era() const { return era_; }
  void begin_era() { ++era_; }

  // Makes a change that a condition reads, and wakes all waiting threads.
  template <class Change>
  void change(Change make_change) {
    {
      const std::lock_guard lock(mutex_);
      make_change();
    }
    wake_.notify_all();
  }
  // Wakes all waiting threads without the lock: a thread that is about to wait may miss it.
  void nudge() { wake_.notify_all(); }

  template <class Condition>
  void wait(Condition condition) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stopped_ || condition(); });
  }
  // For a worker without a step to make: idle() counts the time during which all workers wait here.
  template <class Condition>
  void wait_idle(Condition condition) {
    std::unique_lock lock(mutex_);
    if (++idle_workers_ == workers_) all_idle_since_ = Clock::now();
    wake_.wait(lock, [&] { return stopped_ || condition(); });
    if (idle_workers_-- == workers_) idle_ += Clock::now() - all_idle_since_;
  }
  void wait_until(Clock::time_point at) {
    wait_until(at, [] { return false; });
  }
  template <class Condition>
  void wait_until(Clock::time_point at, Condition condition) {
    if (at <= Clock::now()) return;
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, at, [&] { return stopped_ || condition(); });
  }

  Duration idle() const {
    const std::lock_guard lock(mutex_);
    const bool all = workers_ > 0 && idle_workers_ == workers_;
    return idle_ + (all ? Clock::now() - all_idle_since_ : Duration{0});
  }

 private:
  const std::size_t workers_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint8_t> pauses_{0};
  std::atomic<std::uint64_t> era_{0};
  std::size_t idle_workers_ = 0;
  Clock::time_point all_idle_since_;
  Duration idle_{0};  // in waits that have ended
};

// The steps that a trainer may still make. Workers take each step before they compute it, so that exactly the
// last step is the last, however fast the workers are.
class StepBudget {
 public:
  // `last`: the number of the last step; UINT64_MAX: no limit.
  StepBudget(Gate& gate, std::uint64_t last) : gate_(gate), last_(last) {}

  // Before the first step: steps of earlier lives count.
  void begin_at(std::uint64_t steps) { taken_ = steps; }
  // The number of the last step for now; UINT64_MAX: no limit. Steps that are taken stay so.
  void allow(std::uint64_t steps) {
    gate_.change([&] { allowed_ = steps; });
  }

  // False: all steps are done or under way.
  bool take() {
    std::uint64_t taken = taken_;
    while (taken < most())
      if (taken_.compare_exchange_weak(taken, taken + 1)) return true;
    return false;
  }
  // A dropped step is made again.
  void give_back() {
    gate_.change([this] { --taken_; });
  }
  bool is_left() const { return taken_ < most(); }

 private:
  std::uint64_t most() const { return std::min<std::uint64_t>(last_, allowed_); }

  Gate& gate_;
  const std::uint64_t last_;
  std::atomic<std::uint64_t> allowed_{UINT64_MAX};
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace starling::node

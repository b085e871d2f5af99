// Where a trainer's threads wait: for the end of a pause, for an instant, or for a condition. Stopping ends
// every wait. Conditions are checked under the gate's lock, so what they read is changed within change().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/time.h"

namespace starling::node {

// Who pauses the training. It continues when nobody does.
enum class PausedBy : std::uint8_t { core = 1, owner = 2 };

class Gate {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Gate(std::size_t workers) : workers_(workers) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

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

  // Counts the discards: a step that began in an earlier era is thrown away. A worker reads the era before
  // is_open(); whoever discards pauses first. So no step of the new era begins before the pause ends.
  std::uint64_t era() const { return era_; }
  void begin_era() { ++era_; }

  // Makes a change that a condition reads, and wakes all that wait.
  template <class Change>
  void change(Change make_change) {
    {
      const std::lock_guard lock(mutex_);
      make_change();
    }
    wake_.notify_all();
  }
  // Wakes all that wait, without the lock: a thread that is about to wait may miss it.
  void nudge() { wake_.notify_all(); }

  template <class Condition>
  void wait(Condition condition) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stopped_ || condition(); });
  }
  // The same by a worker that has no step to make: idle() counts the time during which all workers wait here.
  template <class Condition>
  void wait_idle(Condition condition) {
    std::unique_lock lock(mutex_);
    if (++idle_workers_ == workers_) all_idle_since_ = Clock::now();
    wake_.wait(lock, [&] { return stopped_ || condition(); });
    if (idle_workers_-- == workers_) idle_ += Clock::now() - all_idle_since_;
  }
  void wait_until(Clock::time_point at) {
    if (at <= Clock::now()) return;
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, at, [&] { return stopped_.load(); });
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
  Duration idle_{0};  // of waits that are over
};

}  // namespace starling::node

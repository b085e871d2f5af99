// How tests wait: for events. The only bound in wall time is one that a hang alone reaches. What the product
// promises about real time is measured by Beats, a clock that a busy machine slows down as it slows the
// product. tests/suite.py has the same for tests in Python.
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace starling {

// The limit of every wait: only a hang takes so long.
inline constexpr std::chrono::seconds kHang{180};

// Asks until `holds` returns true; false after kHang.
template <class Condition>
bool eventually(const Condition& holds) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A clock whose time passes in beats of 4 ms. Its thread sleeps for 3 ms and computes for 1 ms of processor
// time, again and again: on a busy machine a beat takes as much longer as a process has to wait for a
// processor.
class Beats {
 public:
  Beats() : thread_([this] { beat(); }) {}
  ~Beats() {
    over_ = true;
    thread_.join();
  }
  Beats(const Beats&) = delete;
  Beats& operator=(const Beats&) = delete;

  // Since the construction; less than the wall time.
  std::chrono::milliseconds passed() const { return count_.load() * (kSleep + kWork); }

 private:
  static constexpr std::chrono::milliseconds kSleep{3}, kWork{1};

  static std::chrono::nanoseconds processor_time() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  }
  void beat() {
    while (!over_) {
      std::this_thread::sleep_for(kSleep);
      const auto end = processor_time() + kWork;
      while (processor_time() < end) {
      }
      ++count_;
    }
  }

  std::atomic<bool> over_{false};
  std::atomic<std::int64_t> count_{0};
  std::thread thread_;
};

}  // namespace starling

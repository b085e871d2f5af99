// Where a peer of an all-reduce spends its time, for the launcher's time lines: computing, waiting for the
// last peer to be ready, and exchanging. Of one thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace starling::node {

class PhaseClock {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Phase : std::uint8_t { none, computing, summing };
  struct Sums {
    Clock::duration computing{0}, exchanging{0}, waiting{0};
  };

  void enter(Phase phase) {
    const auto now = Clock::now();
    if (phase_ == Phase::computing) sums_.computing += now - since_;
    phase_ = phase;
    since_ = now;
  }
  // The sum that began at `began` is done: until the last peer was ready, it was a wait.
  void end_sum(Clock::time_point began, Clock::time_point all_ready) {
    const auto now = Clock::now();
    const auto met = std::clamp(all_ready, began, now);
    sums_.waiting += met - began;
    sums_.exchanging += now - met;
    phase_ = Phase::none;
  }
  // The current phase included; a sum that is not done counts as a wait.
  Sums sums() const {
    Sums sums = sums_;
    if (phase_ != Phase::none)
      (phase_ == Phase::computing ? sums.computing : sums.waiting) += Clock::now() - since_;
    return sums;
  }

 private:
  Phase phase_ = Phase::none;
  Clock::time_point since_;
  Sums sums_;
};

}  // namespace starling::node

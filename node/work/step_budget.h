// The steps that a trainer may still make. Workers take each step before they compute it, so that exactly the
// last step is the last, however quick the workers are.
#pragma once

#include <atomic>
#include <cstdint>

#include "node/work/gate.h"

namespace starling::node {

class StepBudget {
 public:
  // `last`: the number of the last step; UINT64_MAX: no limit.
  StepBudget(Gate& gate, std::uint64_t last) : gate_(gate), last_(last) {}

  // Before the first step: those of earlier lives count.
  void begin_at(std::uint64_t steps) { taken_ = steps; }

  // False where all steps are made or under way.
  bool take() {
    if (last_ == UINT64_MAX) return true;
    std::uint64_t taken = taken_;
    while (taken < last_)
      if (taken_.compare_exchange_weak(taken, taken + 1)) return true;
    return false;
  }
  // A step that was thrown away is to be made again.
  void give_back() {
    if (last_ != UINT64_MAX) gate_.change([this] { --taken_; });
  }
  bool is_left() const { return taken_ < last_; }

 private:
  Gate& gate_;
  const std::uint64_t last_;
  std::atomic<std::uint64_t> taken_{0};
};

}  // namespace starling::node

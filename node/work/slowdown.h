// Slows down a real peer for studies: the `slow` faults of its experiment.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/slowness.h"

namespace starling::node {

// A step, including its pace, takes `factor` times as long. `from` and `to` are times since the first step.
struct Slowdown {
  training::Slowness factor;
  Duration from{0};
  std::optional<Duration> to;
  Random chance{0};  // for a factor that is drawn
};

// The slowdowns of the peer with this number.
inline std::vector<Slowdown> slowdowns_of(const training::Experiment& experiment, std::uint32_t number,
                                          std::uint64_t run_seed) {
  std::vector<Slowdown> slowdowns;
  for (const training::Fault& fault : experiment.faults) {
    if (!fault.concerns(number) || fault.kind != training::Fault::Kind::slow) continue;
    const Random chance = training::chance_of_slowness(run_seed, number, slowdowns.size());
    slowdowns.push_back({fault.factor, fault.from, fault.to, chance});
  }
  return slowdowns;
}

using Nanoseconds = std::chrono::duration<double, std::nano>;

// The duration of the step with this number that took `took`. At most 1e18 ns, which fits the clock.
inline Nanoseconds slowed(Nanoseconds took, const std::vector<Slowdown>& slowdowns, Duration since_start,
                          std::uint64_t step) {
  double factor = 1;
  for (const Slowdown& slow : slowdowns) {
    if (slow.from <= since_start && (!slow.to || since_start < *slow.to))
      factor *= slow.factor.of_step(slow.chance, step);
  }
  return std::min(took * factor, Nanoseconds(1e18));
}

}  // namespace starling::node

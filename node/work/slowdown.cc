#include "node/work/slowdown.h"

#include <algorithm>

namespace starling::node {

std::vector<Slowdown> slowdowns_of(const training::Experiment& experiment, std::uint32_t number,
                                   std::uint64_t run_seed) {
  std::vector<Slowdown> slowdowns;
  for (const training::Fault& fault : experiment.faults) {
    if (!fault.concerns(number) || fault.kind != training::Fault::Kind::slow) continue;
    const Random chance = training::chance_of_slowness(run_seed, number, slowdowns.size());
    slowdowns.push_back({fault.factor, fault.from, fault.to, chance});
  }
  return slowdowns;
}

Nanoseconds slowed(Nanoseconds took, const std::vector<Slowdown>& slowdowns, Duration since_start,
                   std::uint64_t step) {
  double factor = 1;
  for (const Slowdown& slow : slowdowns) {
    if (slow.from <= since_start && (!slow.to || since_start < *slow.to))
      factor *= slow.factor.of_step(slow.chance, step);
  }
  return std::min(took * factor, Nanoseconds(1e18));
}

}  // namespace starling::node

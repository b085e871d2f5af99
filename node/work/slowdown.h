// What slows a real peer down for studies: the faults `slow` of its experiment.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "training/experiment/experiment.h"
#include "training/experiment/slowness.h"

namespace starling::node {

// A step, its pace included, takes `factor` times as long; from and to count from the first step.
struct Slowdown {
  training::Slowness factor;
  Duration from{0};
  std::optional<Duration> to;
  Random chance{0};  // where the factor is left to it
};

// Those of the peer with this number, with the run's chance.
std::vector<Slowdown> slowdowns_of(const training::Experiment& experiment, std::uint32_t number,
                                   std::uint64_t run_seed);

// By how much the step with this number takes longer.
double slowness_of_step(const std::vector<Slowdown>& slowdowns, Duration since_start, std::uint64_t step);

}  // namespace starling::node

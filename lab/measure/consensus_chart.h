// The chart of `topology compare`: the disagreement of peers on several topologies, with asynchronous
// exchanges and with lock-step rounds, measured and predicted.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lab/measure/chart.h"
#include "lab/measure/consensus.h"
#include "topologies/analysis.h"

namespace starling::lab {

struct Compared {
  std::string name;
  topologies::Analysis analysis;
  LockStep lock_step;
  Pairwise pairwise;
};

Chart consensus_chart(std::span<const Compared> topologies, std::uint32_t peers, std::uint64_t seed);

}  // namespace starling::lab

// The figure of `topology compare`: how fast peers agree on several topologies.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lab/measure/consensus.h"
#include "lab/plot/draw.h"
#include "topologies/spectra/analysis.h"

namespace starling::lab {

struct Compared {
  std::string name;
  topologies::Analysis analysis;
  LockStepSpread lock_step;
  PairwiseSpread pairwise;
};

// The disagreement of peers, with asynchronous exchanges at the left and with lock-step rounds at the right,
// measured and predicted. Each curve ends where it leaves the plot. REQUIRES: a topology.
FigureSheet consensus_sheet(std::span<const Compared> topologies, std::uint32_t peers, std::uint64_t seed);

}  // namespace starling::lab

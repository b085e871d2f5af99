// What the faults of an experiment amount to for one peer or one link at a time.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "training/experiment/experiment.h"
#include "training/experiment/link_shape.h"

namespace starling::training {

// The link from `from` to `to` at a time of the run: `[network]` unless faults change it; of several faults
// the worse.
LinkShape link_at(const Experiment& experiment, std::uint32_t from, std::uint32_t to, Duration at);

// The largest factor by which the peer is ever slowed (the median where the factor is random); 1 if it never
// is.
double slowness(const Experiment& experiment, std::uint32_t peer);

}  // namespace starling::training

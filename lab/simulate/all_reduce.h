// The baseline in virtual time: bulk-synchronous data-parallel training. In every step each peer computes the
// gradient of its own batch on the same parameters, a ring all-reduce gives every peer the mean of all
// gradients (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
// 2009), and all take the same optimizer step. For n peers and P floats, a step lasts
//   max over peers of (pace x slowness of that step)  +  2 (n - 1) rounds,
//   a round: max over the ring's links i -> i+1 of (4 ceil(P / n) bytes / bandwidth + latency),
// where the bandwidth is at most that of a machine's network card (network.port), and lost frames arrive
// later (base/loss.h). A paused peer stops all, at the beginning and the end of a step and of each round.
//
// Batches, partition, random slowness, learning rates, evaluations and results are those of the other rules.
// Running statistics change by the mean over the peers' batches. All replicas are equal bit by bit, so one is
// kept.
#pragma once

#include "base/result.h"
#include "lab/simulate/simulate.h"
#include "training/experiment/experiment.h"
#include "training/records/record.h"

namespace starling::lab {

// As simulate(), for an experiment whose rule is all-reduce. A crash ends it with an Error that names the
// peer and the time, and so does a loss that is not finite. REQUIRES: training::check_rule() accepts the
// experiment.
Result<training::Summary> simulate_all_reduce(const training::Experiment& experiment,
                                              const SimulateOptions& options,
                                              const training::RunFolder& folder);

}  // namespace starling::lab

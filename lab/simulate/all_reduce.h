// The baseline in virtual time: bulk-synchronous data-parallel training. In every step each peer computes the
// gradient of a batch of its own on the same parameters, a ring all-reduce brings the mean of all gradients
// to everyone (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// JPDC 2009), and all take the same optimizer step. So a step lasts
//   max over peers of (pace x slowness of that step)  +  2 (n - 1) rounds,
//   a round: max over the ring's links i -> i+1 of (4 ceil(P / n) bytes / bandwidth + latency), where no
//   machine's network card is slower (network.port)
// for n peers and P floats; what a link loses comes later (base/loss.h), frame by frame. Whoever is paused
// stops everybody, at a step's and at each round's beginning and end.
//
// Batches, partition, slowness by chance, learning rates, looks and results are those of the other rules.
// Running statistics change by the mean of what the peers' batches say. Replicas are equal bit by bit, so one
// is kept.
#pragma once

#include "base/result.h"
#include "lab/simulate/simulate.h"
#include "training/experiment/experiment.h"
#include "training/records/record.h"

namespace starling::lab {

// As simulate(), for an experiment whose rule is all-reduce. A crash ends it with an Error that names the
// peer and the time, as does a loss that is not finite. REQUIRES: training::check_rule() is content.
Result<training::Summary> simulate_all_reduce(const training::Experiment& experiment,
                                              const SimulateOptions& options,
                                              const training::RunFolder& folder);

}  // namespace starling::lab

// The learning rate over a run. It is a function of the swarm's progress, in epochs of all peers together,
// never of a peer's own steps, so slow peers and late joiners follow the same curve as everyone else.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "training/experiment/experiment.h"

namespace starling::training {

struct Schedule {
  enum class Kind : std::uint8_t { constant, cosine, step };
  Kind kind = Kind::constant;
  double warmup = 0;         // epochs
  double epochs = 0;         // cosine: of the run
  double final_rate = 0;     // cosine: the factor at the run's end
  double step_epochs = 0;    // step: between two decays
  double step_factor = 0.1;  // step: of each decay
};

// An Error if the schedule depends on the run's end and training.epochs is not set, or if the warm-up does
// not end before the run.
Result<Schedule> make_schedule(const Experiment& experiment);

// The factor of the learning rate once the swarm has consumed `epochs_done` epochs, in [0, 1]:
//   warm-up   from 0 linearly to 1 (Goyal et al., "Accurate, large minibatch SGD", 2017);
//   constant  1;
//   cosine    final + (1 - final) (1 + cos(pi t)) / 2, where t goes from 0 at the warm-up's end to 1
//             at the run's end, and final beyond (Loshchilov and Hutter, "SGDR", ICLR 2017, without
//             restarts);
//   step      step_factor^floor(epochs_done / step_epochs), where epochs count from the run's beginning.
// REQUIRES: epochs_done >= 0; the schedule comes from make_schedule().
double rate_factor(const Schedule& schedule, double epochs_done);

// The factor for a worker's next step, when its peer knows of `swarm_samples` that the swarm consumed. The
// step's own batch is added, so that the first step of a warm-up has a rate above 0. `epoch_samples`: the
// size of the training set.
inline double step_rate_factor(const Schedule& schedule, std::uint64_t swarm_samples,
                               std::uint32_t batch_size, std::uint64_t epoch_samples) {
  return rate_factor(schedule,
                     (static_cast<double>(swarm_samples) + batch_size) / static_cast<double>(epoch_samples));
}

}  // namespace starling::training

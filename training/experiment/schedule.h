// The learning rate over a run: a function of how far the swarm has come, in epochs of all its peers
// together, and never of a peer's own steps. So a slow peer and a late joiner follow the same curve as
// everyone else.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "training/experiment/experiment.h"

namespace starling::training {

struct Schedule {
  enum class Kind : std::uint8_t { constant, cosine, step };
  Kind kind = Kind::constant;
  double warmup = 0;         // epochs
  double epochs = 0;         // of cosine: the run's
  double final_rate = 0;     // of cosine: the factor at the run's end
  double step_epochs = 0;    // of step: every so many
  double step_factor = 0.1;  // of step: the rate is multiplied by it
};

// The experiment's schedule. An Error where it needs to know the run's end and training.epochs does not say
// it, or where the warm-up is not over by then.
Result<Schedule> make_schedule(const Experiment& experiment);

// By what the learning rate is multiplied once the swarm has consumed `epochs_done` epochs, in [0, 1]:
//   warm-up   from 0 in a line to 1 (Goyal et al., "Accurate, large minibatch SGD", 2017);
//   constant  1;
//   cosine    from the warm-up's end to the run's, final + (1 - final) (1 + cos(pi t)) / 2 with t from 0 to
//   1, and final
//             beyond (Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts);
//   step      step_factor^floor(epochs_done / step_epochs), counted from the run's beginning, warm-up
//   included.
// REQUIRES: epochs_done >= 0; the schedule is one that make_schedule() gives.
double rate_factor(const Schedule& schedule, double epochs_done);

// The factor for the step of a worker whose peer knows of so many samples that the swarm has consumed: that
// of where the swarm stands once this step's batch is added, so that the first step of a warm-up is no step
// of nothing. `epoch_samples`: the size of the training set.
inline double step_rate_factor(const Schedule& schedule, std::uint64_t swarm_samples,
                               std::uint32_t batch_size, std::uint64_t epoch_samples) {
  return rate_factor(schedule,
                     (static_cast<double>(swarm_samples) + batch_size) / static_cast<double>(epoch_samples));
}

}  // namespace starling::training

// The learning rate over a run. It is a function of the swarm's progress, in epochs of all peers together, so
// slow peers and late joiners follow the same curve as everyone else. Only what the settings give in steps
// follows a peer's own steps: a joiner, whose optimizer begins at zero, warms up as well.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "training/runs/experiment/experiment.h"

namespace starling::training {

struct RateSchedule {
  enum class Kind : std::uint8_t { constant, cosine, step };
  // Epochs of the swarm, or steps of the peer, of all its workers and with those before a restart.
  struct Length {
    double length = 0;
    bool in_steps = false;
  };

  Kind kind = Kind::constant;
  Length warmup;
  Length run;                // cosine: until the end
  double final_rate = 0;     // cosine: the factor at the run's end
  double step_epochs = 0;    // step: between two decays
  double step_factor = 0.1;  // step: of each decay
};

// Steps over which the rate of a newcomer's AdamW rises, unless the warm-up counts steps: then as many.
inline constexpr std::uint64_t kNewcomerSteps = 100;
// Whether a peer that joins now, when the swarm has consumed so many samples, needs that: not where the
// schedule warms it up, nor at the run's beginning, when all peers' moments are young.
inline bool needs_warm_up(const RateSchedule& schedule, std::uint64_t swarm_samples,
                          std::uint32_t batch_size) {
  const bool by_schedule = schedule.warmup.in_steps && schedule.warmup.length > 0;
  return !by_schedule && swarm_samples >= kNewcomerSteps * batch_size;
}

// Whether the settings of the schedule can be combined: an Error if it depends on the run's end and that is
// not set, or if the warm-up does not end before the run. Warm-ups in tokens need the data: make_schedule().
Status check_schedule(const Experiment& experiment);

// Whether the schedule depends on the swarm's epochs.
bool counts_epochs(const Experiment& experiment);

// `epoch_samples`: the size of the training set. `tokens_per_sample`: 0 if its samples have none. The Error
// is check_schedule()'s, or says that the warm-up counts tokens and the data has none.
Result<RateSchedule> make_schedule(const Experiment& experiment, std::uint64_t epoch_samples,
                                   std::uint64_t tokens_per_sample = 0);

// The factor of the learning rate once the swarm has consumed `epochs` and the peer has made `steps`, in
// [0, 1]. It is the product of a warm-up and a decay:
//   warm-up   from 0 linearly to 1 (Goyal et al., "Accurate, large minibatch SGD", 2017);
//   constant  1;
//   cosine    final + (1 - final) (1 + cos(pi t)) / 2, where t goes from 0 at the warm-up's end to 1
//             at the run's end, and final beyond (Loshchilov and Hutter, "SGDR", ICLR 2017, without
//             restarts). If only one of the warm-up and the run counts steps, t begins at 0;
//   step      step_factor^floor(epochs / step_epochs), where epochs count from the run's beginning.
// swarm_factor() has the parts that count epochs, own_factor() those that count steps. REQUIRES: neither is
// negative; the schedule comes from make_schedule().
double swarm_factor(const RateSchedule& schedule, double epochs);
double own_factor(const RateSchedule& schedule, std::uint64_t steps);
inline double rate_factor(const RateSchedule& schedule, double epochs, std::uint64_t steps = 0) {
  return swarm_factor(schedule, epochs) * own_factor(schedule, steps);
}

// swarm_factor() for a worker's next step, when its peer knows of `swarm_samples` that the swarm consumed.
// The step's own batch is added, so that the first step of a warm-up has a rate above 0. For the same reason
// own_factor() of a step counts that step.
inline double swarm_step_factor(const RateSchedule& schedule, std::uint64_t swarm_samples,
                                std::uint32_t batch_size, std::uint64_t epoch_samples) {
  return swarm_factor(schedule,
                      (static_cast<double>(swarm_samples) + batch_size) / static_cast<double>(epoch_samples));
}
// The product of both, for the peer's step with this number, from 1.
inline double step_rate_factor(const RateSchedule& schedule, std::uint64_t swarm_samples,
                               std::uint32_t batch_size, std::uint64_t epoch_samples, std::uint64_t step) {
  return swarm_step_factor(schedule, swarm_samples, batch_size, epoch_samples) * own_factor(schedule, step);
}

}  // namespace starling::training

#include "training/experiment/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text.h"

namespace starling::training {

Result<Schedule> make_schedule(const Experiment& experiment) {
  Schedule schedule;
  schedule.warmup = experiment.schedule.warmup;
  schedule.final_rate = experiment.schedule.final_rate;
  schedule.step_factor = experiment.schedule.step_factor;
  if (experiment.end.epochs && schedule.warmup >= *experiment.end.epochs) {
    return Error{"training.warmup: a warm-up of " + format_number(schedule.warmup) +
                 " epochs must end before the run, which has training.epochs = " +
                 format_number(*experiment.end.epochs)};
  }
  if (experiment.schedule.name == "cosine") {
    if (!experiment.end.epochs)
      return Error{"training.schedule: cosine depends on the end of the run; set training.epochs (--epochs)"};
    schedule.kind = Schedule::Kind::cosine;
    schedule.epochs = *experiment.end.epochs;
  } else if (experiment.schedule.name == "step") {
    if (!experiment.schedule.step_epochs && !experiment.end.epochs) {
      return Error{
          "training.schedule: step decays after every third of the run, so it depends on its end; set "
          "training.step_epochs (--step-epochs) or training.epochs (--epochs)"};
    }
    schedule.kind = Schedule::Kind::step;
    schedule.step_epochs =
        experiment.schedule.step_epochs ? *experiment.schedule.step_epochs : *experiment.end.epochs / 3;
  }
  return schedule;
}

double rate_factor(const Schedule& schedule, double epochs_done) {
  const double warm = epochs_done < schedule.warmup ? epochs_done / schedule.warmup : 1;
  switch (schedule.kind) {
    case Schedule::Kind::constant:
      return warm;
    case Schedule::Kind::cosine: {
      const double t =
          std::clamp((epochs_done - schedule.warmup) / (schedule.epochs - schedule.warmup), 0.0, 1.0);
      const double cosine = (1 + std::cos(std::numbers::pi * t)) / 2;
      return warm * (schedule.final_rate + (1 - schedule.final_rate) * cosine);
    }
    case Schedule::Kind::step:
      return warm * std::pow(schedule.step_factor, std::floor(epochs_done / schedule.step_epochs));
  }
  return warm;
}

}  // namespace starling::training

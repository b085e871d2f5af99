#include "training/runs/experiment/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text.h"
#include "training/runs/experiment/settings/setting_kinds.h"

namespace starling::training {

namespace {

using Length = RateSchedule::Length;

// The warm-up ends before the run if both count the same. `how` is the warm-up in words.
Status check_end(const Length& warmup, const std::string& how, const EndSettings& end) {
  const auto fails = [&](const std::string& setting, double length) {
    return Error{"training.warmup: a warm-up of " + how + " must end before the run, which has training." +
                 setting + " = " + format_number(length)};
  };
  if (!warmup.in_steps && end.epochs && warmup.length >= *end.epochs) return fails("epochs", *end.epochs);
  if (warmup.in_steps && end.steps && warmup.length >= static_cast<double>(*end.steps))
    return fails("steps", static_cast<double>(*end.steps));
  return Done{};
}

bool counts_tokens(const Experiment& experiment) {
  const Warmup& warmup = experiment.schedule.warmup;
  return warmup.unit == Warmup::Unit::tokens && warmup.length > 0;
}

// Of the warm-up, unless it counts tokens.
Length warmup_of(const Experiment& experiment) {
  if (counts_tokens(experiment)) return {};
  return {experiment.schedule.warmup.length, experiment.schedule.warmup.unit == Warmup::Unit::steps};
}

std::string in_words(const Warmup& warmup) {
  return warmup.unit == Warmup::Unit::epochs ? format_warmup(warmup) + " epochs" : format_warmup(warmup);
}

// From 0 to 1 over a length.
double rise(const Length& warmup, double at) { return at < warmup.length ? at / warmup.length : 1; }

double cosine(const RateSchedule& schedule, double at) {
  const double begin = schedule.warmup.in_steps == schedule.run.in_steps ? schedule.warmup.length : 0;
  const double t = std::clamp((at - begin) / (schedule.run.length - begin), 0.0, 1.0);
  const double half = (1 + std::cos(std::numbers::pi * t)) / 2;
  return schedule.final_rate + (1 - schedule.final_rate) * half;
}

// The parts of the schedule that count steps, or those that count epochs.
double factor(const RateSchedule& schedule, bool in_steps, double at) {
  const double warm = schedule.warmup.in_steps == in_steps ? rise(schedule.warmup, at) : 1;
  switch (schedule.kind) {
    case RateSchedule::Kind::constant:
      break;
    case RateSchedule::Kind::cosine:
      return schedule.run.in_steps == in_steps ? warm * cosine(schedule, at) : warm;
    case RateSchedule::Kind::step:
      return in_steps ? warm : warm * std::pow(schedule.step_factor, std::floor(at / schedule.step_epochs));
  }
  return warm;
}

}  // namespace

Status check_schedule(const Experiment& experiment) {
  const ScheduleSettings& settings = experiment.schedule;
  const EndSettings& end = experiment.end;
  if (Status fine = check_end(warmup_of(experiment), in_words(settings.warmup), end); !fine) return fine;
  if (settings.name == "cosine" && !end.epochs && !end.steps) {
    return Error{
        "training.schedule: cosine depends on the end of the run; set training.epochs (--epochs) or "
        "training.steps (--steps)"};
  }
  if (settings.name == "step" && !settings.step_epochs && !end.epochs) {
    return Error{
        "training.schedule: step decays after every third of the run, so it depends on its end; set "
        "training.step_epochs (--step-epochs) or training.epochs (--epochs)"};
  }
  return Done{};
}

bool counts_epochs(const Experiment& experiment) {
  const ScheduleSettings& settings = experiment.schedule;
  const bool decay = settings.name == "step" || (settings.name == "cosine" && experiment.end.epochs);
  return decay || (settings.warmup.length > 0 && settings.warmup.unit != Warmup::Unit::steps);
}

Result<RateSchedule> make_schedule(const Experiment& experiment, std::uint64_t epoch_samples,
                                   std::uint64_t tokens_per_sample) {
  if (Status fine = check_schedule(experiment); !fine) return fine.error();
  const ScheduleSettings& settings = experiment.schedule;
  const EndSettings& end = experiment.end;
  RateSchedule schedule;
  schedule.warmup = warmup_of(experiment);
  if (counts_tokens(experiment)) {
    if (tokens_per_sample == 0) {
      return Error{"training.warmup: the samples of this data have no tokens, so a warm-up of " +
                   in_words(settings.warmup) + " is not possible; give it in epochs or steps"};
    }
    schedule.warmup.length = settings.warmup.length /
                             (static_cast<double>(tokens_per_sample) * static_cast<double>(epoch_samples));
    const std::string how =
        in_words(settings.warmup) + " (" + format_number(schedule.warmup.length) + " epochs)";
    if (Status fine = check_end(schedule.warmup, how, end); !fine) return fine.error();
  }
  schedule.final_rate = settings.final_rate;
  schedule.step_factor = settings.step_factor;
  if (settings.name == "cosine") {
    schedule.kind = RateSchedule::Kind::cosine;
    schedule.run = {end.epochs ? *end.epochs : static_cast<double>(*end.steps), !end.epochs};
  } else if (settings.name == "step") {
    schedule.kind = RateSchedule::Kind::step;
    schedule.step_epochs = settings.step_epochs ? *settings.step_epochs : *end.epochs / 3;
  }
  return schedule;
}

double swarm_factor(const RateSchedule& schedule, double epochs) { return factor(schedule, false, epochs); }
double own_factor(const RateSchedule& schedule, std::uint64_t steps) {
  return factor(schedule, true, static_cast<double>(steps));
}

}  // namespace starling::training

#include "training/runs/experiment/schedule.h"

#include <algorithm>
#include <cmath>

#include "tests/catch.h"
#include "tests/training/near.h"
#include "training/runs/experiment/check.h"

namespace starling::training {
namespace {

constexpr double kTiny = 1e-12;

Experiment cosine() {
  Experiment experiment;
  experiment.schedule.name = "cosine";
  experiment.end.epochs = 10;
  return experiment;
}

Experiment step() {
  Experiment experiment;
  experiment.schedule.name = "step";
  experiment.end.epochs = 9;
  return experiment;
}

RateSchedule schedule_of(const Experiment& experiment) {
  const auto schedule = make_schedule(experiment, 6400);
  if (!schedule) FAIL(schedule.error().message);
  return *schedule;
}

std::string schedule_refusal(const Experiment& experiment) {
  const auto schedule = make_schedule(experiment, 6400);
  REQUIRE_FALSE(schedule.ok());
  const Status checked = check(experiment);
  REQUIRE_FALSE(checked.ok());
  REQUIRE(checked.error().message == schedule.error().message);
  return schedule.error().message;
}

}  // namespace

TEST_CASE("a constant schedule does not change the learning rate, for all other settings") {
  Experiment experiment;
  experiment.schedule.step_epochs = 1;
  experiment.schedule.final_rate = 0.5;
  const RateSchedule schedule = schedule_of(experiment);
  for (const double epochs : {0.0, 1e-9, 1.0, 3.0, 1e6}) CHECK(rate_factor(schedule, epochs) == 1);
}

TEST_CASE("a warm-up rises linearly from zero to the whole rate") {
  Experiment experiment;
  experiment.schedule.warmup = {0.5};
  for (const bool ends : {false, true}) {
    if (ends) experiment.end.epochs = 3;
    const RateSchedule schedule = schedule_of(experiment);
    CHECK(rate_factor(schedule, 0) == 0);
    CHECK(rate_factor(schedule, 0.05) == 0.1);
    CHECK(rate_factor(schedule, 0.25) == 0.5);
    CHECK(rate_factor(schedule, 0.5) == 1);
    CHECK(rate_factor(schedule, 4) == 1);
  }
}

TEST_CASE("cosine falls from one through a half in the middle to zero at the run's end") {
  const RateSchedule schedule = schedule_of(cosine());
  CHECK(rate_factor(schedule, 0) == 1);
  CHECK(near(rate_factor(schedule, 2.5), (1 + std::sqrt(0.5)) / 2, kTiny));  // cos(pi / 4)
  CHECK(near(rate_factor(schedule, 10.0 / 3), 0.75, kTiny));                 // cos(pi / 3) = 1/2
  CHECK(near(rate_factor(schedule, 5), 0.5, kTiny));
  CHECK(near(rate_factor(schedule, 20.0 / 3), 0.25, kTiny));
  CHECK(rate_factor(schedule, 10) == 0);
  CHECK(rate_factor(schedule, 10.5) == 0);
  CHECK(rate_factor(schedule, 1e6) == 0);
}

TEST_CASE("cosine begins where the warm-up ends, and ends at the final rate") {
  Experiment experiment = cosine();
  experiment.schedule.warmup = {2};
  experiment.schedule.final_rate = 0.1;
  const RateSchedule schedule = schedule_of(experiment);
  CHECK(rate_factor(schedule, 0) == 0);
  CHECK(rate_factor(schedule, 1) == 0.5);
  CHECK(rate_factor(schedule, 2) == 1);
  CHECK(near(rate_factor(schedule, 6), 0.55, kTiny));  // the middle of 2 .. 10, and of 1 and 0.1
  CHECK(near(rate_factor(schedule, 10), 0.1, kTiny));
  CHECK(near(rate_factor(schedule, 11), 0.1, kTiny));
  double before = 0;
  for (int k = 0; k <= 2000; ++k) {
    const double now = rate_factor(schedule, k / 1000.0);
    REQUIRE(now >= before);
    before = now;
  }
  for (int k = 2000; k <= 12'000; ++k) {
    const double now = rate_factor(schedule, k / 1000.0);
    REQUIRE(now <= before);
    REQUIRE(now >= 0.1 - kTiny);
    before = now;
  }
}

TEST_CASE("step multiplies the rate at equal intervals, by default every third of the run") {
  RateSchedule schedule = schedule_of(step());
  for (const auto& [epochs, factor] :
       {std::pair(0.0, 1.0), {2.999, 1.0}, {3.0, 0.1}, {5.999, 0.1}, {6.0, 0.01}}) {
    INFO(epochs);
    CHECK(near(rate_factor(schedule, epochs), factor, kTiny));
  }
  Experiment experiment = step();
  experiment.end.epochs.reset();
  experiment.end.steps = 1000;
  experiment.schedule.step_epochs = 0.25;
  experiment.schedule.step_factor = 0.5;
  experiment.schedule.warmup = {0.5};
  schedule = schedule_of(experiment);
  CHECK(near(rate_factor(schedule, 0.125), 0.25, kTiny));        // during the warm-up
  CHECK(near(rate_factor(schedule, 0.375), 0.75 * 0.5, kTiny));  // and after the first drop
  CHECK(near(rate_factor(schedule, 0.5), 0.25, kTiny));
  CHECK(near(rate_factor(schedule, 1.1), 0.0625, kTiny));
  CHECK(rate_factor(schedule, 1e6) == 0);
}

TEST_CASE("a step uses the rate at the swarm's progress, including its own batch") {
  Experiment experiment;
  experiment.schedule.warmup = {1};
  const RateSchedule schedule = schedule_of(experiment);
  CHECK(step_rate_factor(schedule, 0, 64, 6400, 1) == 0.01);  // 1 of 100 steps
  CHECK(step_rate_factor(schedule, 6400 - 64, 64, 6400, 100) == 1);
  CHECK(step_rate_factor(schedule, 3136, 64, 6400, 50) == 0.5);
}

TEST_CASE("a warm-up in steps follows the peer's own steps, whatever the swarm's progress") {
  Experiment experiment;
  experiment.schedule.warmup = {100, Warmup::Unit::steps};
  const RateSchedule schedule = schedule_of(experiment);
  for (const std::uint64_t swarm : {0U, 64U, 64'000'000U}) {
    CHECK(step_rate_factor(schedule, swarm, 64, 6400, 1) == 0.01);
    CHECK(step_rate_factor(schedule, swarm, 64, 6400, 25) == 0.25);
    CHECK(step_rate_factor(schedule, swarm, 64, 6400, 100) == 1);
    CHECK(step_rate_factor(schedule, swarm, 64, 6400, 1'000'000) == 1);
  }
}

TEST_CASE("a warm-up in tokens follows the swarm's samples, and data without tokens has none") {
  Experiment experiment;
  experiment.schedule.warmup = {1e6, Warmup::Unit::tokens};
  CHECK(check(experiment).ok());
  const auto schedule = make_schedule(experiment, 6400, 250);  // 4,000 samples
  REQUIRE(schedule.ok());
  CHECK(near(step_rate_factor(*schedule, 0, 40, 6400, 7), 0.01, kTiny));
  CHECK(near(step_rate_factor(*schedule, 1960, 40, 6400, 7), 0.5, kTiny));
  CHECK(step_rate_factor(*schedule, 4000, 40, 6400, 7) == 1);
  const auto without = make_schedule(experiment, 6400);
  REQUIRE_FALSE(without.ok());
  CHECK(without.error().message ==
        "training.warmup: the samples of this data have no tokens, so a warm-up of 1e+06 tokens is not "
        "possible; give it in epochs or steps");
  experiment.end.epochs = 0.5;
  const auto longer = make_schedule(experiment, 6400, 250);
  REQUIRE_FALSE(longer.ok());
  CHECK(longer.error().message ==
        "training.warmup: a warm-up of 1e+06 tokens (0.625 epochs) must end before the run, which has "
        "training.epochs = 0.5");
  experiment.schedule.warmup.length = 0;
  CHECK(make_schedule(experiment, 6400).ok());
}

TEST_CASE("cosine counts each peer's steps if only these end the run, and begins where their warm-up ends") {
  Experiment experiment = cosine();
  experiment.end.epochs.reset();
  experiment.end.steps = 1000;
  experiment.schedule.final_rate = 0.1;
  experiment.schedule.warmup = {200, Warmup::Unit::steps};
  RateSchedule schedule = schedule_of(experiment);
  for (const std::uint64_t swarm : {0U, 64'000'000U}) {
    CHECK(near(step_rate_factor(schedule, swarm, 64, 6400, 100), 0.5, kTiny));
    CHECK(step_rate_factor(schedule, swarm, 64, 6400, 200) == 1);
    CHECK(near(step_rate_factor(schedule, swarm, 64, 6400, 600), 0.55, kTiny));
    CHECK(near(step_rate_factor(schedule, swarm, 64, 6400, 1000), 0.1, kTiny));
    CHECK(near(step_rate_factor(schedule, swarm, 64, 6400, 2000), 0.1, kTiny));
  }
  // With both ends the swarm's epochs count.
  experiment.end.epochs = 10;
  experiment.schedule.warmup = {};
  schedule = schedule_of(experiment);
  CHECK(near(rate_factor(schedule, 5, 1000), 0.55, kTiny));
}

TEST_CASE("cosine begins at the run's beginning if the warm-up counts something else") {
  Experiment experiment = cosine();
  experiment.schedule.warmup = {100, Warmup::Unit::steps};
  RateSchedule schedule = schedule_of(experiment);
  CHECK(near(rate_factor(schedule, 5, 50), 0.25, kTiny));  // a joiner in the middle of the run
  CHECK(near(rate_factor(schedule, 5, 100), 0.5, kTiny));
  CHECK(near(rate_factor(schedule, 0, 100), 1, kTiny));
  experiment.end.epochs.reset();
  experiment.end.steps = 1000;
  experiment.schedule.warmup = {2};
  schedule = schedule_of(experiment);
  CHECK(near(rate_factor(schedule, 1, 500), 0.25, kTiny));
  CHECK(near(rate_factor(schedule, 2, 500), 0.5, kTiny));
}

TEST_CASE("a schedule without the run's end is rejected, and so is a warm-up longer than the run") {
  Experiment experiment = cosine();
  experiment.end.epochs.reset();
  experiment.end.seconds = std::chrono::seconds(10);
  experiment.end.target_accuracy = 0.9;
  CHECK(schedule_refusal(experiment) ==
        "training.schedule: cosine depends on the end of the run; set training.epochs (--epochs) or "
        "training.steps (--steps)");
  experiment.schedule.name = "step";
  CHECK(schedule_refusal(experiment) ==
        "training.schedule: step decays after every third of the run, so it depends on its end; set "
        "training.step_epochs (--step-epochs) or training.epochs (--epochs)");
  experiment.schedule.step_epochs = 2;
  CHECK(check(experiment).ok());
  experiment = cosine();
  experiment.schedule.warmup = {10};
  CHECK(schedule_refusal(experiment) ==
        "training.warmup: a warm-up of 10 epochs must end before the run, which has training.epochs = 10");
  experiment.schedule.warmup = {9.5};
  CHECK(check(experiment).ok());
  experiment.end.steps = 100;
  experiment.schedule.warmup = {100, Warmup::Unit::steps};
  CHECK(schedule_refusal(experiment) ==
        "training.warmup: a warm-up of 100 steps must end before the run, which has training.steps = 100");
  experiment.schedule.warmup.length = 99;
  CHECK(check(experiment).ok());
}

}  // namespace starling::training

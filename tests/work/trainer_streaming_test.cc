// A worker whose network trains in stages without a flush, in the trainer: what is under way comes out before
// a pause, a capture and the end.
#include <algorithm>

#include "tests/work/trainer_bench.h"

namespace starling::node {
namespace {

using namespace testing;

// A bench of one worker with three stages.
struct StreamBench : TrainerBench {
  StreamBench() {
    experiment.model.name = "lenet";
    plan = std::make_unique<models::Plan>(*training::make_plan(experiment, data.train));
    arena = std::make_unique<models::Arena>(plan->layout.arena_size(), *backend);
    arena->write(0, training::first_parameters(*plan, 1));
    experiment.training.devices = {"cpu:0", "cpu:1", "cpu:2"};
    experiment.training.split = training::Split::stages;
    experiment.pipeline.schedule = training::PipelineSchedule::pipedream;
    experiment.pipeline.cuts = {2, 6};
  }
};

}  // namespace

TEST_CASE("a streaming trainer makes exactly the configured number of steps, and reports each") {
  StreamBench bench;
  TrainerOptions options;
  options.last_step = 50;
  bench.start(options);
  REQUIRE(bench.await(50));
  CaptureTaker captures;
  CHECK(captures.take(*bench.trainer)->steps == 50);
  bench.trainer->stop();
  CHECK(bench.trainer->steps() == 50);
  CHECK(bench.trainer->samples() == 16 * 50);
  CHECK(bench.trainer->loss().has_value());
  CHECK_FALSE(bench.trainer->non_finite());
}

TEST_CASE("after stop returns, neither the parameters nor the counts of a streaming trainer change") {
  for (std::uint64_t round = 0; round < 10; ++round) {
    StreamBench bench;
    bench.start({});
    REQUIRE(bench.await(1 + round));
    bench.trainer->stop();
    const auto parameters = bench.parameters();
    const auto steps = bench.trainer->steps();
    CHECK(steps == bench.trainer->steps_begun());
    bench.trainer.reset();
    CHECK(bench.parameters() == parameters);
    CHECK(bench.reported == steps);
  }
}

TEST_CASE("a streaming trainer that is paused and loses its steps changes nothing until it resumes") {
  StreamBench bench;
  TrainerOptions options;
  options.last_step = 300;
  bench.start(options);
  for (std::uint64_t seen = 20; seen <= 200; seen += 20) {
    REQUIRE(bench.await(seen));
    bench.pause_and_discard();
    const auto parameters = bench.parameters();
    const auto steps = bench.trainer->steps();
    CHECK(bench.parameters() == parameters);
    CHECK(bench.trainer->steps() == steps);
    bench.renew_and_resume();
  }
  REQUIRE(eventually([&] { return bench.trainer->steps() >= 300; }));
  bench.trainer->stop();
  CHECK(bench.trainer->steps() == 300);
}

TEST_CASE("a pause in the middle of a paced step of a streaming trainer does not wait for the pace") {
  StreamBench bench;
  bench.start({.pace = kHour, .slowdowns = {}});
  REQUIRE(bench.await_begun(1));
  bench.pause_and_discard();
  // The step has come out before the discard, or was dropped.
  const auto steps = bench.trainer->steps();
  CHECK(steps <= 1);
  CHECK(bench.reported == steps);
  const auto parameters = bench.parameters();
  bench.trainer->stop();
  CHECK(bench.trainer->steps() == steps);
  CHECK(bench.parameters() == parameters);
}

TEST_CASE("a streaming trainer that resumes from a capture ends where one does that goes on after it") {
  const auto prepare = [](StreamBench& bench) {
    bench.experiment.optimizer.name = "adamw";
    bench.experiment.optimizer.weight_decay = 0.1;
    TrainerOptions options;
    options.wait_every = 20;
    options.last_step = 40;
    return options;
  };
  CaptureTaker captures;
  StreamBench whole, second;
  whole.start(prepare(whole));
  REQUIRE(whole.await(20));
  const auto middle = captures.take(*whole.trainer);
  REQUIRE(middle->steps >= 20);
  whole.trainer->handled(20);
  REQUIRE(eventually([&] { return whole.trainer->steps() >= 40; }));
  whole.trainer->stop();
  const training::PeerState expected = whole.trainer->remains();

  second.arena->write(0, middle->parameters);
  second.restored = middle.get();
  second.start(prepare(second));
  CHECK(second.lost.empty());
  REQUIRE(eventually([&] { return second.trainer->steps() >= 40; }));
  second.trainer->stop();
  const training::PeerState resumed = second.trainer->remains();
  CHECK(resumed.parameters == expected.parameters);
  CHECK(resumed.workers == expected.workers);
}

TEST_CASE("every tensor of every stage has a velocity in a streaming trainer") {
  StreamBench bench;
  TrainerOptions options;
  options.last_step = 30;
  bench.start(options);
  REQUIRE(eventually([&] { return bench.trainer->steps() >= 30; }));
  bench.trainer->stop();
  const training::PeerState state = bench.trainer->remains();
  REQUIRE(state.workers.size() == 1);
  REQUIRE(state.workers[0].velocity.size() == bench.plan->layout.trained_size());
  for (const models::Tensor& tensor : bench.plan->layout.tensors()) {
    const auto begin = state.workers[0].velocity.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
    INFO(tensor.name);
    CHECK(
        std::any_of(begin, begin + static_cast<std::ptrdiff_t>(tensor.size), [](float v) { return v != 0; }));
  }
}

}  // namespace starling::node

// Copies of a running trainer, and trainers that resume from one.
#include "node/work/hogwild.h"

#include "tests/work/trainer_bench.h"

namespace starling::node {
namespace {

using namespace testing;

}  // namespace

TEST_CASE("a capture of a running trainer is of one moment: resumed, it repeats the run exactly") {
  TrainerBench whole, copied;
  TrainerOptions in_turn;
  in_turn.in_turn = true;
  whole.start(in_turn);
  CaptureTaker captures;
  copied.start({});
  REQUIRE(copied.await(7));
  const auto state = captures.take(*copied.trainer);
  REQUIRE(copied.await(copied.trainer->steps() + 5));  // it continues meanwhile
  CHECK(state->samples == 16 * state->steps);
  CHECK(state->steps >= 7);
  // Only steps have changed it, so the same number of steps from the start gives the same values, bit by bit.
  for (std::uint64_t steps = 1; steps <= state->steps; ++steps) {
    REQUIRE(whole.await(steps));
    if (steps < state->steps) whole.trainer->handled(steps);
  }
  whole.trainer->stop();
  CHECK(whole.trainer->steps() == state->steps);
  CHECK(whole.parameters() == state->parameters);
  CHECK(whole.trainer->remains().workers == state->workers);
}

TEST_CASE("a trainer that resumes in the middle of its warm-up ends where an uninterrupted one does") {
  const auto run_to = [](TrainerBench& bench, std::uint64_t last_step) {
    bench.experiment.optimizer.name = "adamw";
    bench.experiment.optimizer.weight_decay = 0.1;
    bench.experiment.optimizer.clip_norm = 0.5;
    TrainerOptions options;
    options.schedule.warmup = {20, true};  // steps
    options.last_step = last_step;
    if (bench.restored != nullptr) bench.arena->write(0, bench.restored->parameters);
    const std::uint64_t before = bench.restored != nullptr ? bench.restored->steps : 0;
    bench.start(options);
    CHECK(bench.lost.empty());
    REQUIRE(bench.await(last_step - before));
    bench.trainer->stop();
    return bench.trainer->remains();
  };
  TrainerBench whole, first, second;
  const training::PeerState expected = run_to(whole, 16), middle = run_to(first, 7);
  CHECK(first.trainer->rate_factor() == 8.0 / 20);
  second.restored = &middle;
  const training::PeerState resumed = run_to(second, 16);
  CHECK(resumed.steps == 16);
  CHECK(second.trainer->rate_factor() == 17.0 / 20);
  CHECK(resumed.parameters == expected.parameters);
  CHECK(resumed.workers == expected.workers);
}

TEST_CASE("with wait_every a capture can be of exactly the steps that are its multiples") {
  TrainerBench bench;
  CaptureTaker captures;
  TrainerOptions options;
  options.wait_every = 10;
  bench.start(options);
  for (const std::uint64_t steps : {10, 20, 30}) {
    REQUIRE(bench.await(steps));
    CHECK(captures.take(*bench.trainer)->steps == steps);
    bench.trainer->handled(steps);
  }
}

TEST_CASE("several workers are captured one by one while the others train, each with its own counts") {
  for (const std::uint32_t devices : {1, 2}) {
    TrainerBench bench(3);
    CaptureTaker captures;
    TrainerOptions options;
    options.average_every = 4;
    bench.start(options, devices);
    std::uint64_t before = 0;
    for (int i = 0; i < 30; ++i) {
      REQUIRE(bench.await(before + 6));
      const auto state = captures.take(*bench.trainer);
      REQUIRE(state->workers.size() == 3 * devices);
      CHECK(state->samples == 16 * state->steps);
      CHECK(state->steps >= before);
      CHECK(state->steps <= bench.trainer->steps());
      CHECK(state->loss.has_value());
      // Each has drawn one sample per step.
      std::uint64_t drawn = 0;
      for (const auto& worker : state->workers) drawn += worker.draws;
      CHECK(drawn == state->steps);
      for (const auto& worker : state->workers)
        CHECK(worker.cursor.position == (worker.draws * 16 + 299) % 300 + 1);
      before = state->steps;
    }
  }
}

TEST_CASE("a paused or waiting trainer is captured too; a stopped one is not") {
  TrainerBench bench(2);
  CaptureTaker captures;
  bench.start({});
  REQUIRE(bench.await(4));
  bench.trainer->pause(PausedBy::core);
  const auto paused = captures.take(*bench.trainer);
  CHECK(paused->workers.size() == 2);
  bench.trainer->resume(PausedBy::core);
  bench.trainer->stop();
  CHECK_FALSE(bench.trainer->capture([](const std::shared_ptr<training::PeerState>&) {}));
  const auto remains = bench.trainer->remains();
  CHECK(remains.steps == bench.trainer->steps());
  CHECK(remains.parameters == bench.parameters());

  TrainerBench waiting;
  TrainerOptions in_turn;
  in_turn.in_turn = true;
  waiting.start(in_turn);
  REQUIRE(waiting.await(1));
  const auto state = captures.take(*waiting.trainer);
  CHECK(state->steps == 1);
}

TEST_CASE("a trainer that resumes from a capture continues its counts, and reports what does not fit") {
  TrainerBench first(2), second(2), fewer(1);
  TrainerOptions slow;
  slow.pace = kHour;
  first.start(slow);
  first.trainer->stop();
  training::PeerState state = first.trainer->remains();
  state.steps = 100;
  state.samples = 1600;
  state.loss = 1.5;
  second.restored = &state;
  second.start({});
  CHECK(second.lost.empty());
  REQUIRE(second.await(10));
  second.trainer->stop();
  CHECK(second.trainer->steps() >= 110);
  CHECK(second.trainer->samples() == 16 * second.trainer->steps());
  CHECK(second.trainer->remains().steps == second.trainer->steps());
  fewer.restored = &state;
  fewer.start({});
  REQUIRE(fewer.lost.size() == 1);
  CHECK(fewer.lost[0] == "it has 2 workers, and this peer has 1: the state of the others is dropped");
}

}  // namespace starling::node

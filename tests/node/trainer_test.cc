// Workers on threads: how many steps they make, and when they stop.
#include "node/trainer.h"

#include <condition_variable>
#include <limits>
#include <mutex>

#include "datasets/glyphs.h"
#include "kernels/backend.h"
#include "tests/catch.h"
#include "training/recipe.h"

namespace starling::node {
namespace {

constexpr Duration kHour = std::chrono::hours(1);

// A small problem, its workers, and a count of the steps that were reported.
struct Bench {
  explicit Bench(std::uint32_t workers = 1) {
    experiment.model = "softmax";
    experiment.batch_size = 16;
    experiment.workers = workers;
    auto made_plan = training::make_plan(experiment, data.train);
    REQUIRE(made_plan.ok());
    plan = std::make_unique<models::Plan>(std::move(*made_plan));
    auto made_backend = kernels::make_backend("cpu");
    REQUIRE(made_backend.ok());
    backend = std::move(*made_backend);
    arena = std::make_unique<models::Arena>(plan->layout.arena_size());
    arena->write(0, training::first_parameters(*plan, 1));
  }

  void start(TrainerOptions options) {
    auto workers = training::make_workers(experiment, *plan, *backend, data.train, 0, 0);
    REQUIRE(workers.ok());
    trainer = std::make_unique<Trainer>(std::move(*workers), *arena, std::move(options), [this] {
      const std::lock_guard lock(mutex);
      ++reported;
      changed.notify_all();
    });
    trainer->start();
  }
  // Waits for that many reports.
  bool await(std::uint64_t steps) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return reported >= steps; });
  }
  std::vector<float> parameters() const {
    std::vector<float> x(arena->size());
    arena->read(0, x);
    return x;
  }

  training::Experiment experiment;
  datasets::DataPair data = datasets::make_glyphs(1, 300, 50);
  std::unique_ptr<models::Plan> plan;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<models::Arena> arena;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t reported = 0;
  std::unique_ptr<Trainer> trainer;
};

}  // namespace

TEST_CASE("workers change the shared parameters, count their steps and samples and report each step") {
  Bench bench(2);
  const auto before = bench.parameters();
  bench.start({});
  REQUIRE(bench.await(40));
  bench.trainer->stop();
  REQUIRE(bench.trainer->steps() >= 40);
  REQUIRE(bench.trainer->samples() == 16 * bench.trainer->steps());
  REQUIRE(bench.trainer->loss().has_value());
  REQUIRE(*bench.trainer->loss() > 0);
  REQUIRE(*bench.trainer->loss() < 3);  // ln 10 for the untrained
  REQUIRE_FALSE(bench.trainer->non_finite());
  REQUIRE(bench.parameters() != before);
}

TEST_CASE("steps go at the learning rate times the factor of the moment") {
  Bench bench;
  bench.start({});
  const auto await_new_steps = [&] { REQUIRE(bench.await(bench.trainer->steps() + 3)); };
  bench.trainer->set_rate_factor(0);
  await_new_steps();  // the one that was being added has landed
  const auto still = bench.parameters();
  await_new_steps();
  REQUIRE(bench.parameters() == still);
  bench.trainer->set_rate_factor(0.5);
  await_new_steps();
  REQUIRE(bench.parameters() != still);
  REQUIRE(bench.trainer->rate_factor() == 0.5);
}

TEST_CASE("before the first step there is no loss and nothing is counted") {
  Bench bench;
  Trainer idle({}, *bench.arena, {}, [] {});
  REQUIRE_FALSE(idle.loss().has_value());
  REQUIRE(idle.steps() == 0);
  idle.stop();
}

TEST_CASE("once stop returns neither the parameters nor the counts change any more") {
  for (int round = 0; round < 20; ++round) {
    Bench bench(2);
    bench.start({});
    REQUIRE(bench.await(1 + static_cast<std::uint64_t>(round)));
    bench.trainer->stop();
    const auto parameters = bench.parameters();
    const auto steps = bench.trainer->steps();
    const auto samples = bench.trainer->samples();
    bench.trainer->stop();  // harmless
    auto* trainer = bench.trainer.get();
    REQUIRE(trainer->steps() == steps);
    bench.trainer.reset();  // the threads end; whatever step was under way is thrown away
    REQUIRE(bench.parameters() == parameters);
    REQUIRE(bench.reported == steps);
    REQUIRE(samples == 16 * steps);
  }
}

TEST_CASE("a pace of an hour gives one step of each worker, and stopping does not wait for the next") {
  Bench bench(2);
  bench.start({kHour, {}});
  REQUIRE(bench.await(2));
  bench.trainer->stop();
  bench.trainer.reset();  // joins
  REQUIRE(bench.reported == 2);
}

TEST_CASE("a slowdown stretches the pace and not only the arithmetic") {
  Bench bench;
  bench.start({std::chrono::milliseconds(4), {{1e6, Duration{0}, {}}}});  // 4,000 s a step
  REQUIRE(bench.await(1));
  bench.trainer->stop();
  bench.trainer.reset();
  REQUIRE(bench.reported == 1);
}

TEST_CASE("a slowdown counts within its window alone, and factors of several multiply without overflow") {
  Bench bench;
  SECTION("not yet") {
    bench.start({Duration{0}, {{1e6, kHour, {}}}});
    REQUIRE(bench.await(20));
  }
  SECTION("an empty window") {
    bench.start({std::chrono::microseconds(1), {{1e6, Duration{0}, Duration{0}}}});
    REQUIRE(bench.await(20));
  }
  SECTION("several at once") {
    bench.start({kHour, {{1e6, Duration{0}, {}}, {1e6, Duration{0}, kHour}, {1e6, Duration{0}, {}}}});
    REQUIRE(bench.await(1));
    bench.trainer->stop();
    bench.trainer.reset();
    REQUIRE(bench.reported == 1);
  }
}

TEST_CASE("a loss that is not finite is noticed") {
  Bench bench;
  bench.arena->write(0, std::vector<float>(bench.arena->size(), std::numeric_limits<float>::quiet_NaN()));
  bench.start({});
  REQUIRE(bench.await(1));
  bench.trainer->stop();
  REQUIRE(bench.trainer->non_finite());
}

}  // namespace starling::node

// Workers on threads: how many steps they make, and when they stop.
#include "node/work/hogwild.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/gpu.h"
#include "tests/work/trainer_bench.h"

namespace starling::node {
namespace {

using namespace testing;

// The emulated GPU's kernels race on the arena like a GPU's, and ThreadSanitizer reports it.
#if defined(__SANITIZE_THREAD__)
constexpr bool kRacesAreSeen = true;
#else
constexpr bool kRacesAreSeen = false;
#endif

}  // namespace

TEST_CASE("workers change the shared parameters, count their steps and samples and report each step") {
  TrainerBench bench(2);
  const auto before = bench.parameters();
  bench.start({});
  REQUIRE(bench.await(40));
  bench.trainer->stop();
  REQUIRE(bench.trainer->steps() >= 40);
  REQUIRE(bench.trainer->samples() == 16 * bench.trainer->steps());
  REQUIRE(bench.trainer->loss().has_value());
  REQUIRE(*bench.trainer->loss() > 0);
  REQUIRE(*bench.trainer->loss() < 3);  // an untrained model has ln 10
  REQUIRE_FALSE(bench.trainer->non_finite());
  REQUIRE(bench.parameters() != before);
}

// Workers on a device also change the shared parameters, asynchronously to the calls.
TEST_CASE("a GPU's workers count their steps, pause, forget and stop like others", "[gpu]") {
  auto backend = kernels::gpu_backend();
  if (!backend) return;
  TrainerBench bench(kRacesAreSeen ? 1 : 2, std::move(backend));
  const auto before = bench.parameters();
  bench.start({});
  REQUIRE(bench.await(20));
  bench.pause_and_discard();
  const auto paused = bench.parameters();
  CHECK(paused != before);
  // A discarded step may still read, which is harmless, but is reported.
  if (!kRacesAreSeen) bench.arena->write(0, before);
  bench.renew_and_resume();
  REQUIRE(bench.await(bench.trainer->steps() + 10));
  bench.trainer->stop();
  const auto stopped = bench.parameters();
  CHECK(bench.trainer->samples() == 16 * bench.trainer->steps());
  CHECK(*bench.trainer->loss() < 3);
  CHECK_FALSE(bench.trainer->failure().has_value());
  bench.trainer->give_back();
  CHECK(bench.parameters() == stopped);
}

TEST_CASE("devices of one peer train their own replicas, and the peer's replica is their mean", "[gpu]") {
  for (const bool on_gpu : {false, true}) {
    if (on_gpu && kRacesAreSeen) continue;
    auto backend = on_gpu ? kernels::gpu_backend() : std::move(*kernels::make_backend("cpu"));
    if (!backend) continue;
    TrainerBench bench(2, std::move(backend));
    const auto before = bench.parameters();
    TrainerOptions options;
    options.average_every = 2;
    bench.start(options, 3);
    REQUIRE(bench.await(60));
    bench.trainer->stop();
    // The last average sets all replicas to the mean, except for rounding.
    const auto peer = bench.parameters();
    CHECK(peer != before);
    for (std::size_t device = 0; device < 3; ++device) {
      const auto replica = TrainerBench::contents(bench.group->replica(device));
      double most = 0;
      for (std::size_t i = 0; i < peer.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(peer[i]) - static_cast<double>(replica[i])));
      CHECK(most < 1e-5);
    }
    REQUIRE(bench.trainer->spread().has_value());
    CHECK(*bench.trainer->spread() > 0);
    CHECK(bench.trainer->samples() == 16 * bench.trainer->steps());
    CHECK_FALSE(bench.trainer->non_finite());
  }
}

TEST_CASE("a peer with several devices copies another member's parameters to all of them") {
  TrainerBench bench;
  TrainerOptions options;
  options.average_every = 1;
  bench.start(options, 2);
  REQUIRE(bench.await(10));
  bench.pause_and_discard();
  const std::vector<float> others(bench.arena->size(), 0.125F);
  bench.arena->write(0, others);
  bench.trainer->set_swarm_factor(0);  // later steps change nothing
  bench.renew_and_resume();
  REQUIRE(bench.await(bench.trainer->steps() + 20));
  bench.trainer->stop();
  CHECK(bench.parameters() == others);
  for (std::size_t device = 0; device < 2; ++device)
    CHECK(TrainerBench::contents(bench.group->replica(device)) == others);
}

TEST_CASE("a device with values that are not finite makes the trainer report it") {
  TrainerBench bench;
  TrainerOptions options;
  options.average_every = 1;
  bench.start(options, 2);
  REQUIRE(bench.await(4));
  CHECK_FALSE(bench.trainer->non_finite());
  const std::vector<float> bad(bench.arena->size(), std::numeric_limits<float>::quiet_NaN());
  bench.group->replica(1).write(0, bad);
  CHECK(eventually([&] { return bench.trainer->non_finite(); }));
}

TEST_CASE("a step uses the learning rate times the current factor") {
  TrainerBench bench;
  bench.start({});
  const auto await_new_steps = [&] { REQUIRE(bench.await(bench.trainer->steps() + 3)); };
  bench.trainer->set_swarm_factor(0);
  await_new_steps();  // the step in progress has been applied
  const auto still = bench.parameters();
  await_new_steps();
  REQUIRE(bench.parameters() == still);
  bench.trainer->set_swarm_factor(0.5);
  await_new_steps();
  REQUIRE(bench.parameters() != still);
  REQUIRE(bench.trainer->rate_factor() == 0.5);
}

TEST_CASE("a step with a drawn slowdown takes the drawn time") {
  const auto slowness = *training::Slowness::parse("pareto:alpha=1");
  const Random chance = training::chance_of_slowness(7, 0, 0);
  constexpr std::uint64_t kSteps = 10;
  double drawn = 0;
  for (std::uint64_t step = 0; step < kSteps; ++step) drawn += slowness.of_step(chance, step);
  TrainerBench bench;
  TrainerOptions options;
  options.pace = std::chrono::milliseconds(2);
  options.slowdowns = {{slowness, Duration{0}, std::nullopt, chance}};
  const auto start = std::chrono::steady_clock::now();
  bench.start(std::move(options));
  // The eleventh is reported when it has been computed, before its wait.
  REQUIRE(bench.await(kSteps + 1));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() >= 2 * drawn);
}

TEST_CASE("before the first step there is no loss and nothing is counted") {
  TrainerBench bench;
  HogwildTrainer idle({}, *bench.arena, {}, [] {});
  REQUIRE_FALSE(idle.loss().has_value());
  REQUIRE_FALSE(idle.spread().has_value());
  REQUIRE(idle.steps() == 0);
  idle.stop();
}

TEST_CASE("after stop returns, neither the parameters nor the counts change") {
  for (int round = 0; round < 20; ++round) {
    TrainerBench bench(2);
    bench.start({});
    REQUIRE(bench.await(1 + static_cast<std::uint64_t>(round)));
    bench.trainer->stop();
    const auto parameters = bench.parameters();
    const auto steps = bench.trainer->steps();
    const auto samples = bench.trainer->samples();
    bench.trainer->stop();  // harmless
    auto* trainer = bench.trainer.get();
    REQUIRE(trainer->steps() == steps);
    if (round % 2 == 0) bench.trainer->give_back();
    REQUIRE(trainer->steps() == steps);
    bench.trainer.reset();  // the threads end; the step in progress is discarded
    REQUIRE(bench.parameters() == parameters);
    REQUIRE(bench.reported == steps);
    REQUIRE(samples == 16 * steps);
  }
}

TEST_CASE("a paced step is applied at its end, and stopping does not wait for it") {
  TrainerBench bench(2);
  bench.start({kHour, {}});
  const auto parameters = bench.parameters();
  REQUIRE(bench.await_begun(2));
  bench.trainer->stop();
  bench.trainer.reset();  // joins
  REQUIRE(bench.reported == 0);
  REQUIRE(bench.parameters() == parameters);
}

TEST_CASE("with in_turn a worker begins no step before handled() of the last one") {
  TrainerBench bench;
  TrainerOptions options;
  options.in_turn = true;
  bench.start(options);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    REQUIRE(bench.await(step));
    if (step == 10)
      bench.trainer->pause(PausedBy::core);  // the reaction to the step: then the next one does not begin
    REQUIRE(bench.trainer->steps_begun() == step);
    bench.trainer->handled(step);
    if (step == 10) {
      REQUIRE(bench.trainer->steps_begun() == step);
      bench.trainer->resume(PausedBy::core);
    }
  }
  bench.trainer->stop();
}

TEST_CASE("any number of workers makes exactly the configured number of steps") {
  for (const std::uint32_t workers : {1, 2, 3}) {
    for (const std::uint64_t steps : {1, 2, 100}) {
      CAPTURE(workers, steps);
      TrainerBench bench(workers);
      TrainerOptions options;
      options.last_step = steps;
      bench.start(options);
      REQUIRE(bench.await(steps));
      CaptureTaker captures;  // workers that wait after the last step are captured too
      const auto state = captures.take(*bench.trainer);
      CHECK(state->steps == steps);
      CHECK(state->samples == 16 * steps);
      bench.trainer->pause(PausedBy::core);
      bench.trainer->resume(PausedBy::core);
      bench.trainer->stop();
      bench.trainer->give_back();
      CHECK(bench.reported == steps);
      CHECK(bench.trainer->steps() == steps);
      CHECK(bench.trainer->samples() == 16 * steps);
    }
  }
}

TEST_CASE("workers begin no step beyond the samples that they are allowed, and go on when these are raised") {
  for (const std::uint32_t workers : {1, 3}) {
    CAPTURE(workers);
    TrainerBench limited(workers);
    limited.allowed = 16 * 10 + 1;
    limited.start({});
    REQUIRE(limited.await(11));
    CaptureTaker captures;  // workers that wait are captured too
    CHECK(captures.take(*limited.trainer)->steps == 11);
    limited.trainer->allow_samples(5);  // less than what is done: no further step
    limited.trainer->allow_samples(16 * 40);
    REQUIRE(limited.await(40));
    CHECK(captures.take(*limited.trainer)->steps == 40);
    limited.trainer->allow_samples(UINT64_MAX);
    REQUIRE(limited.await(60));
    limited.trainer->stop();
  }
}

TEST_CASE("samples of earlier processes count towards those that are allowed") {
  TrainerBench earlier, later;
  TrainerOptions ten;
  ten.last_step = 10;
  earlier.start(ten);
  REQUIRE(earlier.await(10));
  earlier.trainer->stop();
  const training::PeerState state = earlier.trainer->remains();
  later.restored = &state;
  later.allowed = 16 * 15;
  later.start({});
  REQUIRE(later.await(5));
  CaptureTaker captures;
  CHECK(captures.take(*later.trainer)->steps == 15);
  later.trainer->stop();
}

TEST_CASE("steps of earlier processes count towards the last step") {
  TrainerBench earlier, later;
  TrainerOptions ten, fifteen;
  ten.last_step = 10;
  fifteen.last_step = 15;
  earlier.start(ten);
  REQUIRE(earlier.await(10));
  earlier.trainer->stop();
  const training::PeerState state = earlier.trainer->remains();
  later.restored = &state;
  later.start(fifteen);
  REQUIRE(later.await(5));
  // The sixth never comes: a worker that is paused and resumed then has no step left.
  later.pause_and_discard();
  later.renew_and_resume();
  CaptureTaker captures;
  CHECK(captures.take(*later.trainer)->steps == 15);
  later.trainer->stop();
  CHECK(later.trainer->steps() == 15);
  CHECK(later.reported == 5);
}

TEST_CASE("workers whose steps are discarded make the same number again") {
  TrainerBench bench(3);
  TrainerOptions options;
  options.last_step = 400;
  bench.start(options);
  for (std::uint64_t seen = 20; seen <= 300; seen += 20) {
    REQUIRE(bench.await(seen));
    bench.pause_and_discard();
    bench.trainer->resume(PausedBy::core);
  }
  // Discarded steps are reported too.
  for (std::uint64_t seen = 301; bench.trainer->steps() < 400; ++seen) REQUIRE(bench.await(seen));
  CaptureTaker captures;
  CHECK(captures.take(*bench.trainer)->steps == 400);
  bench.trainer->stop();
  CHECK(bench.trainer->steps() == 400);
}

TEST_CASE("a slowdown stretches the pace and not only the arithmetic") {
  TrainerBench bench;
  bench.start({std::chrono::milliseconds(4), {{1e6, Duration{0}, {}}}});  // 4,000 s a step
  REQUIRE(bench.await_begun(1));
  bench.trainer->stop();
  bench.trainer.reset();
  REQUIRE(bench.reported == 0);
}

TEST_CASE("a slowdown applies only within its window, and several factors multiply without overflow") {
  TrainerBench bench;
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
    REQUIRE(bench.await_begun(1));
    bench.trainer->stop();
    bench.trainer.reset();
    REQUIRE(bench.reported == 0);
  }
}

TEST_CASE("a loss that is not finite is reported") {
  TrainerBench bench;
  bench.arena->write(0, std::vector<float>(bench.arena->size(), std::numeric_limits<float>::quiet_NaN()));
  bench.start({});
  REQUIRE(bench.await(1));
  bench.trainer->stop();
  REQUIRE(bench.trainer->non_finite());
}

TEST_CASE("the shown loss begins anew after one that is not finite") {
  TrainerBench bench;
  std::vector<float> good(bench.arena->size());
  bench.arena->read(0, good);
  bench.arena->write(0, std::vector<float>(good.size(), std::numeric_limits<float>::quiet_NaN()));
  bench.start({});
  REQUIRE(bench.await(1));
  bench.trainer->pause(PausedBy::core);
  bench.trainer->discard_steps();  // one of them would add what is not finite
  CHECK_FALSE(bench.trainer->loss());
  bench.arena->write(0, good);
  bench.trainer->renew();
  const std::uint64_t steps = bench.trainer->steps();
  bench.trainer->resume(PausedBy::core);
  REQUIRE(bench.await(steps + 3));
  bench.trainer->stop();
  REQUIRE(bench.trainer->loss());
  CHECK(*bench.trainer->loss() < 3);  // an untrained model has ln 10
}

}  // namespace starling::node

#include "lab/simulate/virtual_run.h"

#include <stdlib.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "datasets/dataset.h"
#include "lab/simulate/simulate.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/training/temporary_folder.h"
#include "training/learning/recipe.h"
#include "training/learning/worker.h"
#include "training/runs/experiment/check.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/json.h"
#include "training/runs/records/timeline.h"

namespace starling::lab {
namespace {

using namespace std::chrono_literals;
using training::Experiment;
using training::Fault;

constexpr std::size_t kRows = 64;

// A folder with a table of two classes that are nearly linearly separable.
std::string write_table(const training::TemporaryFolder& scratch) {
  Random random(7);
  for (const char* name : {"train.csv", "test.csv"}) {
    std::ofstream file(scratch.path() + "/" + name);
    for (std::size_t row = 0; row < kRows; ++row) {
      const double x = random.normal(), y = random.normal(), z = random.normal();
      file << x << ',' << y << ',' << z << ',' << (x + 2 * y - z + random.normal() > 0 ? 1 : 0) << '\n';
    }
  }
  return scratch.path();
}

// 4 peers with 16 rows each; a batch is all 16.
Experiment small(const training::TemporaryFolder& scratch) {
  Experiment experiment;
  experiment.gossip.rule = Rule::all_reduce;
  experiment.model.name = "mlp";
  experiment.data.source = write_table(scratch);
  experiment.training.batch_size = kRows / 4;
  experiment.end.steps = 10;
  return experiment;
}

Result<training::Summary> attempt(const Experiment& experiment, unsigned threads = 2,
                                  SimulateOptions options = {}) {
  const training::TemporaryFolder scratch;
  auto folder = training::RunFolder::create(scratch.path() + "/run", false);
  REQUIRE(folder.ok());
  REQUIRE(training::check(experiment).ok());
  options.threads = threads;
  return simulate(experiment, options, *folder);
}

training::Summary run_baseline(const Experiment& experiment, unsigned threads = 2) {
  const auto summary = attempt(experiment, threads);
  if (!summary) FAIL(summary.error().message);
  return *summary;
}

std::size_t arena_floats(const Experiment& experiment) {
  const auto data = datasets::load(experiment.data.source, "");
  REQUIRE(data.ok());
  return training::make_plan(experiment, data->train)->layout.arena_size();
}

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// The time of one round: the largest of four chunks over this link.
std::int64_t round_time(const Experiment& experiment, double bandwidth, Duration latency) {
  const std::size_t chunk_bytes = 4 * ((arena_floats(experiment) + 3) / 4);
  return nanoseconds(static_cast<double>(8 * chunk_bytes) / bandwidth) + latency.count();
}

// The mean gradient of all peers' batches equals that of all rows. So a single worker with all rows in each
// step must get the same parameters.
void check_equals_one_large_batch(Experiment experiment) {
  const training::TemporaryFolder results;
  auto folder = training::RunFolder::create(results.path() + "/run", false);
  REQUIRE(folder.ok());
  const auto summary = simulate(experiment, {}, *folder);
  REQUIRE(summary.ok());
  REQUIRE(summary->per_peer.front().steps == 10);
  const auto data = datasets::load(experiment.data.source, "");
  REQUIRE(data.ok());
  const auto plan = training::make_plan(experiment, data->train);
  const auto learned = training::read_safetensors(folder->file("model.safetensors"), plan->layout);
  REQUIRE(learned.ok());

  experiment.peers = 1;
  experiment.training.batch_size = kRows;
  const auto backend = training::make_host_backend(experiment);
  std::vector<std::uint32_t> all(kRows);
  std::iota(all.begin(), all.end(), 0U);
  training::Worker worker(*plan, **backend, data->train, training::BatchSampler(all, Random(99)),
                          {kRows,
                           training::make_optimizer(experiment),
                           {},
                           nullptr,
                           static_cast<float>(experiment.optimizer.clip_norm)});
  const auto schedule = training::make_schedule(experiment, kRows);
  REQUIRE(schedule.ok());
  models::Arena arena(plan->layout.arena_size());
  const std::vector<float> first = training::first_parameters(*plan, experiment.seed);
  arena.write(0, first);
  for (std::uint64_t step = 1; step <= 10; ++step) {
    worker.set_rate([&] { return own_factor(*schedule, step); });
    worker.feed(arena);
    worker.land();
  }
  double moved = 0, apart = 0;
  for (std::size_t i = 0; i < arena.size(); ++i) {
    moved = std::max(moved, std::abs(static_cast<double>(arena.data()[i] - first[i])));
    apart = std::max(apart, std::abs(static_cast<double>(arena.data()[i] - learned->arena[i])));
  }
  INFO("parameters moved by " << moved << " and are " << apart << " apart");
  CHECK(moved > 0.005);
  CHECK(apart < 1e-3 * moved);
}

}  // namespace

TEST_CASE("the duration of a step of all-reduce equals its formula, to the nanosecond") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  const std::int64_t round = round_time(experiment, 1e9, 100us);
  const training::Summary summary = run_baseline(experiment);
  CHECK(nanoseconds(summary.seconds) == 10 * (20'000'000 + 6 * round));
  CHECK(summary.samples == 10 * kRows);
  CHECK(summary.exchanges.completed == 10);
  CHECK(summary.bytes_sent == 10 * 6 * 4 * arena_floats(experiment));
  CHECK(summary.consensus_distance == 0);
  for (const auto& peer : summary.per_peer) {
    CHECK(peer.steps == 10);
    CHECK(peer.samples == 10 * experiment.training.batch_size);
    CHECK(peer.state == "finished");
  }

  experiment.training.pace = 5ms;
  experiment.network.latency = 3ms;
  experiment.network.bandwidth = 1e7;
  CHECK(nanoseconds(run_baseline(experiment).seconds) ==
        10 * (5'000'000 + 6 * round_time(experiment, 1e7, 3ms)));
  // A machine's network card limits the bandwidth; both directions are independent.
  experiment.network.port = 5e6;
  CHECK(nanoseconds(run_baseline(experiment).seconds) ==
        10 * (5'000'000 + 6 * round_time(experiment, 5e6, 3ms)));
  experiment.network.port = training::kUnlimited;
  // One slow link slows down all peers.
  experiment.faults = {{.peer = 2, .kind = Fault::Kind::link, .link = {.latency = 50ms, .bandwidth = 1e6}}};
  CHECK(nanoseconds(run_baseline(experiment).seconds) ==
        10 * (5'000'000 + 6 * round_time(experiment, 1e6, 50ms)));
}

TEST_CASE("a round of diloco lasts as its formula says, and every replica is equal after the last") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.gossip.rule = Rule::diloco;
  experiment.gossip.every = Pace{.steps = 4};
  experiment.network.bandwidth = 1e7;
  const std::size_t part = ((arena_floats(experiment) + 3) / 4 + 15) / 16 * 16;
  for (const Payload payload : {Payload::f32, Payload::bf16, Payload::int8}) {
    experiment.gossip.payload = payload;
    const std::size_t bytes = payload == Payload::f32    ? 4 * part
                              : payload == Payload::bf16 ? 2 * part
                                                         : part + 4 * ((part + 255) / 256);
    const training::Summary summary = run_baseline(experiment);
    // Rounds of 4, 4 and 2 steps.
    const std::int64_t turn = nanoseconds(static_cast<double>(8 * bytes) / 1e7) + 100'000;
    CHECK(nanoseconds(summary.seconds) == 10 * 20'000'000 + 3 * 6 * turn);
    CHECK(summary.bytes_sent == 3 * 6 * 4 * bytes);
    CHECK(summary.exchanges.completed == 3);
    CHECK(summary.consensus_distance == 0);
    CHECK(summary.per_peer[2].steps == 10);
  }
  // Peers wait for the slowest once in a round, not in every step.
  experiment.gossip.payload = Payload::f32;
  const auto chance = *training::Slowness::parse("log-normal:sigma=1");
  experiment.faults = {{.peer = Fault::kAll, .factor = chance}};
  const double rounds = run_baseline(experiment).seconds;
  experiment.gossip.every = Pace{.steps = 1};
  CHECK(rounds < run_baseline(experiment).seconds);
}

TEST_CASE("with fragments diloco sends as much in smaller sums, and all of it at the end") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.gossip.rule = Rule::diloco;
  experiment.gossip.every = Pace{.steps = 10};
  const training::Summary whole = run_baseline(experiment);
  experiment.gossip.fragments = 2;
  experiment.model.name = "mlp";
  const training::Summary parts = run_baseline(experiment);
  CHECK(whole.exchanges.completed == 1);
  CHECK(parts.exchanges.completed == 2);
  CHECK(parts.consensus_distance == 0);
  // After five steps one half, after ten both.
  CHECK(static_cast<double>(parts.bytes_sent) > 1.4 * static_cast<double>(whole.bytes_sent));
  CHECK(static_cast<double>(parts.bytes_sent) < 1.6 * static_cast<double>(whole.bytes_sent));
}

TEST_CASE("diloco gives the same result on any number of threads") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.gossip.rule = Rule::diloco;
  experiment.gossip.payload = Payload::int8;
  experiment.gossip.every = Pace{.steps = 3};
  CHECK(run_baseline(experiment, 1).trace_hash == run_baseline(experiment, 3).trace_hash);
}

TEST_CASE("a single peer reduces nothing") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.peers = 1;
  const training::Summary summary = run_baseline(experiment);
  CHECK(nanoseconds(summary.seconds) == 10 * 20'000'000);
  CHECK(summary.bytes_sent == 0);
}

TEST_CASE("all peers wait for the slowest one of each step") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  const std::int64_t reduce = 6 * round_time(experiment, 1e9, 100us);
  experiment.faults = {{.peer = 1, .factor = 10}, {.peer = 2, .factor = 3}};
  CHECK(nanoseconds(run_baseline(experiment).seconds) == 10 * (200'000'000 + reduce));

  // The slowness of each step is the same as with gossip.
  const auto chance = *training::Slowness::parse("log-normal:sigma=1");
  experiment.faults = {{.peer = Fault::kAll, .factor = chance}};
  std::int64_t expected = 10 * reduce;
  for (std::uint64_t step = 0; step < 10; ++step) {
    std::int64_t longest = 0;
    for (std::uint32_t peer = 0; peer < 4; ++peer) {
      const Random drawn = training::chance_of_slowness(experiment.seed, peer, 0);
      longest = std::max(longest, nanoseconds(0.02 * chance.of_step(drawn, step)));
    }
    expected += longest;
  }
  CHECK(nanoseconds(run_baseline(experiment).seconds) == expected);
}

struct Drawn {
  double total = 0;                                 // seconds
  std::map<std::string, training::Activity> spent;  // seconds, by peer
  std::map<std::string, double> steps;
};

// A run's time lines, summed.
Drawn drawn(const Experiment& experiment) {
  const training::TemporaryFolder results;
  auto folder = training::RunFolder::create(results.path() + "/run", false);
  REQUIRE(folder.ok());
  const auto summary = simulate(experiment, {}, *folder);
  REQUIRE(summary.ok());
  Drawn it{.total = summary->seconds, .spent = {}, .steps = {}};
  std::ifstream file(folder->file("timeline.jsonl"));
  for (std::string line; std::getline(file, line);) {
    const auto cell = training::Json::parse(line);
    const double length = cell.at("to").get<double>() - cell.at("from").get<double>();
    auto& sum = it.spent[cell.at("peer")];
    sum.computing += length * cell.at("computing").get<double>();
    sum.exchanging += length * cell.at("exchanging").get<double>();
    sum.waiting += length * cell.at("waiting").get<double>();
    sum.stopped += length * cell.at("stopped").get<double>();
    it.steps[cell.at("peer")] += cell.at("steps").get<double>();
  }
  return it;
}

TEST_CASE("the time lines of a run by all-reduce show the waiting peers") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.faults = {{.peer = 1, .factor = 3},
                       {.peer = 2, .kind = Fault::Kind::pause, .from = 0ms, .to = 15ms}};
  auto [total, spent, steps] = drawn(experiment);
  const double ring = 6e-9 * static_cast<double>(round_time(experiment, 1e9, 100us));
  for (const char* peer : {"p0", "p1", "p2", "p3"}) {
    const bool slow = peer == std::string("p1"), paused = peer == std::string("p2");
    CAPTURE(peer);
    CHECK(steps[peer] == Approx(10));
    CHECK(spent[peer].computing == Approx(slow ? 0.6 : 0.2).epsilon(1e-4));
    CHECK(spent[peer].exchanging == Approx(10 * ring).epsilon(1e-3));
    CHECK(spent[peer].stopped == Approx(paused ? 0.015 : 0).margin(1e-6));
    CHECK(spent[peer].waiting == Approx(slow ? 0 : (paused ? 0.385 : 0.4)).margin(1e-4));
  }
}

TEST_CASE("the time line contains all recurring pauses, also those during which the peer would wait") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.faults = {{.peer = 1, .factor = 5},
                       {.peer = 2, .kind = Fault::Kind::pause, .every = 20ms, .length = 1ms}};
  auto [total, spent, steps] = drawn(experiment);
  CHECK(total > 1);  // about fifty pauses
  CHECK(spent["p2"].stopped == Approx(total / 20).margin(0.0011));
  CHECK(spent["p3"].stopped == 0);
}

TEST_CASE("a paused peer stops all others until it resumes") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  const std::int64_t reduce = 6 * round_time(experiment, 1e9, 100us);
  experiment.faults = {{.peer = 3, .kind = Fault::Kind::pause, .from = 10ms, .to = 2s}};
  CHECK(nanoseconds(run_baseline(experiment).seconds) == 2'000'000'000 + reduce + 9 * (20'000'000 + reduce));
  experiment.faults.front().to.reset();
  const auto never = attempt(experiment);
  REQUIRE(!never.ok());
  CHECK(never.error().message ==
        "p3 was paused for good after 0 s, and all-reduce cannot continue without it");
  experiment.end.steps.reset();
  experiment.end.seconds = 1s;  // ends the run while all wait
  CHECK(run_baseline(experiment).samples == 0);
}

TEST_CASE("frames that a link of the ring loses arrive later, and the swarm waits for them") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  const double before = run_baseline(experiment).seconds;
  experiment.faults = {{.peer = 0, .kind = Fault::Kind::link, .link = {.drop = 0.2}}};
  const training::Summary lossy = run_baseline(experiment, 1);
  CHECK(lossy.seconds > before + 0.2);
  CHECK(lossy.seconds == run_baseline(experiment, 2).seconds);
  CHECK(lossy.samples == 10 * kRows);
}

TEST_CASE("all-reduce gives the same result on any number of threads", "[figures]") {
  Experiment experiment;
  experiment.gossip.rule = Rule::all_reduce;
  experiment.end.epochs = 0.03;
  const training::Summary one = run_baseline(experiment, 1), two = run_baseline(experiment, 2);
  REQUIRE(one.trace_hash.has_value());
  CHECK(one.trace_hash == two.trace_hash);
  CHECK(one.loss == two.loss);
  experiment.seed = 2;
  CHECK(run_baseline(experiment).trace_hash != one.trace_hash);
}

TEST_CASE("a step equals one with all batches combined, with either optimizer, clipped or not") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.optimizer.weight_decay = 1e-3;
  SECTION("momentum") {}
  SECTION("Nesterov's") { experiment.optimizer.nesterov = true; }
  SECTION("AdamW") {
    experiment.optimizer.name = "adamw";
    experiment.optimizer.learning_rate = 0.001;
  }
  SECTION("momentum, clipped, with a warm-up and a decay in steps") {
    experiment.optimizer.clip_norm = 0.3;  // shorter than the gradients
    experiment.schedule.name = "cosine";
    experiment.schedule.warmup = {4, training::Warmup::Unit::steps};
  }
  check_equals_one_large_batch(experiment);
}

TEST_CASE("a crash ends a run by all-reduce with an error") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.faults = {{.peer = 2, .kind = Fault::Kind::crash, .from = 100ms},
                       {.peer = 1, .kind = Fault::Kind::crash, .from = 150ms}};
  const auto ended = attempt(experiment);
  REQUIRE(!ended.ok());
  CHECK(ended.error().message == "p2 crashed after 0.1 s, and all-reduce cannot continue without it");
  // A crash after the run's end has no effect.
  experiment.faults.resize(1);
  experiment.faults.front().from = 1s;
  CHECK(run_baseline(experiment).samples == 10 * kRows);
}

TEST_CASE("all-reduce ends after a time, at the target, and on interruption, like other rules") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  const double step = run_baseline(experiment).seconds / 10;
  experiment.end.steps.reset();
  experiment.end.seconds = from_seconds(4.5 * step);
  CHECK(run_baseline(experiment).per_peer.front().steps == 4);

  experiment.end.seconds.reset();
  experiment.end.target_accuracy = 0.7;
  const training::Summary reached = run_baseline(experiment);
  REQUIRE(reached.seconds_to_target.has_value());
  CHECK(*reached.seconds_to_target == reached.seconds);
  CHECK(*reached.accuracy >= 0.7);

  experiment.end.target_accuracy.reset();
  SimulateOptions options;
  options.interrupted = [asked = 0]() mutable { return ++asked > 3; };
  const auto stopped = attempt(experiment, 2, options);
  REQUIRE(stopped.ok());
  CHECK(stopped->per_peer.front().steps == 3);
}

TEST_CASE("all-reduce reports a loss that is not finite") {
  const training::TemporaryFolder scratch;
  Experiment experiment = small(scratch);
  experiment.optimizer.learning_rate = 1000;
  const auto diverged = attempt(experiment);
  REQUIRE(!diverged.ok());
  CHECK(contains(diverged.error().message, "the loss is not finite after "));
}

}  // namespace starling::lab

// Simulated peers whose devices are the stages of a pipeline without a flush.
#include "lab/simulate/stream_learner.h"

#include <vector>

#include "lab/simulate/pipelined_peer.h"
#include "tests/catch.h"
#include "tests/lab/even_network.h"
#include "tests/lab/simulated_run.h"
#include "tests/seeds.h"
#include "training/learning/recipe.h"
#include "training/learning/split.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {
namespace {

using training::PipelineSchedule;

PipelinedPeer streaming(SimulatedDevices devices) {
  devices.schedule = PipelineSchedule::pipedream;
  const auto peer = pipelined_peer(even_network(), devices, 64, 0.24);
  if (!peer) FAIL(peer.error().message);
  return *peer;
}

training::Experiment one_peer() {
  training::Experiment experiment;
  experiment.model.name = "mlp";
  experiment.data.source = "glyphs";
  experiment.peers = 1;
  experiment.gossip.rule = Rule::none;
  experiment.training.devices = {"cpu:0", "cpu:1", "cpu:2"};
  experiment.training.split = training::Split::stages;
  experiment.training.pace = std::chrono::milliseconds(30);
  experiment.pipeline.schedule = PipelineSchedule::pipedream;
  experiment.optimizer.learning_rate = 0.02;
  experiment.end.steps = 23;
  return experiment;
}

// What a real peer's worker makes of the same batches.
std::vector<float> streamed(const training::Experiment& experiment) {
  auto data = training::load_data(experiment, "");
  REQUIRE(data.ok());
  const auto plan = training::make_plan(experiment, *data);
  REQUIRE(plan.ok());
  const auto backend = training::make_host_backend(experiment);
  REQUIRE(backend.ok());
  const auto settled = training::settle_split(experiment, *plan, nullptr);
  REQUIRE(settled.ok());
  const auto workers = training::make_workers(*settled, *plan, **backend, data->train, 0, 1);
  REQUIRE(workers.ok());
  training::Worker& worker = *workers->front();
  REQUIRE(worker.updates_meanwhile());
  models::Arena arena(plan->layout.arena_size());
  REQUIRE(training::write_starting_parameters(experiment, *plan, arena).ok());
  for (std::uint64_t k = 0; k < *experiment.end.steps; ++k) {
    worker.feed(arena);
    while (worker.is_full()) worker.land();
  }
  while (worker.land()) {
  }
  return {arena.data(), arena.data() + arena.size()};
}

}  // namespace

TEST_CASE("without a flush the time from batch to batch is that of the slowest stage") {
  SimulatedDevices devices{.speeds = {1, 1, 1, 1}, .cuts = {1, 2, 3}};
  const PipelinedPeer even = streaming(devices);
  CHECK(even.step == Approx(0.06).epsilon(1e-9));
  CHECK(record_of(even).bubble == Approx(0).margin(1e-9));
  CHECK(even.streams());
  devices.speeds = {1, 1, 0.25, 1};
  const PipelinedPeer slow = streaming(devices);
  CHECK(slow.step == Approx(0.24).epsilon(1e-9));
  CHECK(record_of(slow).stages[2].idle == Approx(0).margin(1e-9));
  CHECK(record_of(slow).stages[0].idle == Approx(0.75).epsilon(1e-9));
  devices.speeds = {1, 1, 1, 1};
  devices.micro_batches = 3;  // batches for an update
  CHECK(streaming(devices).step == Approx(0.06).epsilon(1e-9));
  devices.recomputation = training::Recomputation::always;
  CHECK(streaming(devices).step == Approx(0.08).epsilon(1e-9));
  // A link that needs longer for a batch than any stage; the batch has 64 samples of 64 floats.
  devices.recomputation = training::Recomputation::never;
  devices.bandwidth = 64 * 64 * 4 / 0.5;
  CHECK(streaming(devices).step >= 0.5);
}

TEST_CASE("two replicas of a stage with twice the work wait for one another only at updates") {
  SimulatedDevices devices{.speeds = {1, 1, 1, 1}, .cuts = {2, 3}, .replicas = {2, 1, 1}};
  CHECK(streaming(devices).layers ==
        std::vector<std::string>{"fc1 to fc2, replica 1", "fc1 to fc2, replica 2", "fc3", "fc4"});
  for (const std::uint32_t m : {1U, 2U, 4U, 16U}) {
    devices.micro_batches = m;
    CHECK(streaming(devices).step == Approx(0.06 * (1 + 0.5 / m)).epsilon(1e-9));
  }
  devices.speeds = {0.5, 1, 1, 1};  // one replica, for which the other one waits
  CHECK(streaming(devices).step >= 0.12);
  devices.speeds = {1, 1, 1, 1};
  devices.latency = 10;  // of the gradients that they exchange, and of what crosses cuts
  CHECK(streaming(devices).step >= 1);
}

TEST_CASE("a simulated stream takes the time of the pure machine") {
  const training::Experiment experiment = one_peer();
  auto data = training::load_data(experiment, "");
  REQUIRE(data.ok());
  const auto plan = training::make_plan(experiment, *data);
  REQUIRE(plan.ok());
  auto peer = pipeline_of(experiment, *plan);
  REQUIRE(peer.ok());
  REQUIRE(peer->has_value());
  training::PipelineShape shape = (*peer)->shape;
  shape.batches = *experiment.end.steps;
  const double wanted = training::time_pipeline(shape, (*peer)->times).seconds;
  const SimulatedRun result = simulated(experiment);
  CHECK(result.summary.per_peer.at(0).steps == *experiment.end.steps);
  CHECK(result.summary.seconds == Approx(wanted).epsilon(1e-6));
  CHECK(wanted > 23 * (*peer)->step);

  // A slow peer takes as many times longer.
  training::Experiment slowed = experiment;
  slowed.faults = {{.peer = 0, .factor = 3}};
  CHECK(simulated(slowed).summary.seconds == Approx(3 * wanted).epsilon(1e-6));
}

TEST_CASE("a simulated stream learns as a real peer's stages do") {
  training::Experiment experiment = one_peer();
  SECTION("SGD") {}
  SECTION("AdamW") {
    experiment.optimizer.name = "adamw";
    experiment.optimizer.learning_rate = 0.002;
  }
  SECTION("an update for three batches") { experiment.pipeline.micro_batches = 3; }
  SECTION("vertical sync") { experiment.pipeline.vertical_sync = true; }
  SECTION("both") {
    experiment.pipeline.micro_batches = 2;
    experiment.pipeline.vertical_sync = true;
  }
  SECTION("replicas of the first stage") {
    experiment.training.devices.emplace_back("cpu:3");
    experiment.pipeline.stage_replicas = {2, 1, 1};
  }
  SECTION("replicas of the last stage, and an update for two batches of each") {
    experiment.pipeline.stage_replicas = {1, 2};
    experiment.pipeline.micro_batches = 2;
  }
  static std::uint64_t number = 0;
  if (!is_turn_of(number++, 7, 2)) return;
  const std::vector<float> real = streamed(experiment);
  CHECK(largest_difference(simulated(experiment).parameters, real) < 1e-5);
  // Other parameters would show.
  experiment.pipeline.schedule = PipelineSchedule::one_f_one_b;
  experiment.pipeline.micro_batches = 0;
  experiment.pipeline.vertical_sync = false;
  CHECK(largest_difference(simulated(experiment).parameters, real) > 1e-3);
}

TEST_CASE("streams give the same digits on any number of threads, with every kind of exchange", "[figures]") {
  training::Experiment experiment = one_peer();
  experiment.peers = 4;
  experiment.end.steps.reset();
  experiment.end.epochs = 0.2;
  SECTION("pairwise") { experiment.gossip.rule = Rule::pairwise; }
  SECTION("d-psgd") { experiment.gossip.rule = Rule::d_psgd; }
  SECTION("noloco") { experiment.gossip.rule = Rule::noloco; }
  SECTION("parameter-server") { experiment.gossip.rule = Rule::parameter_server; }
  SECTION("pairwise, with replicas of stages") {
    experiment.gossip.rule = Rule::pairwise;
    experiment.pipeline.stage_replicas = {2, 1};
  }
  static std::uint64_t number = 0;
  if (!is_turn_of(number++, 5)) return;
  experiment.faults = {{.peer = 1, .factor = 4}};
  training::OwnSettings own{.peers = 2};
  REQUIRE(training::set_own(own, "speeds", "1,0.5,1").ok());
  experiment.own = {own};
  const SimulatedRun first = simulated(experiment, 1);
  REQUIRE(first.summary.trace_hash.has_value());
  CHECK(first.summary.accuracy > 0.5);
  for (const unsigned threads : {1U, 3U}) {
    if (threads == 1 && !all_seeds()) continue;
    const SimulatedRun again = simulated(experiment, threads);
    CHECK(again.summary.trace_hash == first.summary.trace_hash);
    CHECK(again.summary.loss == first.summary.loss);
    CHECK((again.parameters == first.parameters));
  }
  CHECK(first.summary.epochs >= 0.2);
  CHECK(first.summary.epochs < 0.25);
}

TEST_CASE("batches under way are lost with their peer, and the others go on") {
  training::Experiment experiment = one_peer();
  experiment.peers = 3;
  experiment.gossip.rule = Rule::pairwise;
  SECTION("one device for each stage") {}
  SECTION("replicas") { experiment.pipeline.stage_replicas = {2, 1}; }
  experiment.end.steps.reset();
  experiment.end.epochs = 0.3;
  training::Fault crash;
  crash.peer = 1;
  crash.kind = training::Fault::Kind::crash;
  crash.from = std::chrono::milliseconds(335);
  crash.back_after = std::chrono::milliseconds(500);
  training::Fault pause;
  pause.peer = 2;
  pause.kind = training::Fault::Kind::pause;
  pause.from = std::chrono::milliseconds(400);
  pause.to = std::chrono::milliseconds(900);
  experiment.faults = {crash, pause};
  const SimulatedRun result = simulated(experiment);
  for (const auto& record : result.summary.per_peer) CHECK(record.state == "finished");
  CHECK(result.summary.per_peer[1].steps > 0);
  CHECK(result.summary.per_peer[1].steps < result.summary.per_peer[0].steps);
}

}  // namespace starling::lab

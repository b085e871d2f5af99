// How long the steps of simulated peers with several devices take, and what they learn.
#include "lab/simulate/divided_peer.h"

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/by_name/backends.h"
#include "lab/simulate/incidents.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/lab/simulated_run.h"
#include "tests/training/staged_plans.h"
#include "training/learning/device_group.h"
#include "training/learning/slices/sliced_network.h"

namespace starling::lab {
namespace {

using training::Split;

training::Experiment two_devices(Split split) {
  training::Experiment experiment;
  experiment.model.name = "mlp";
  experiment.data.source = "glyphs";
  experiment.peers = 1;
  experiment.gossip.rule = Rule::none;
  experiment.training.devices = {"cpu:0", "cpu:1"};
  experiment.training.split = split;
  experiment.training.pace = std::chrono::milliseconds(30);
  experiment.training.average_every = 4;
  experiment.pipeline.bandwidth = 1e9;
  experiment.pipeline.latency = std::chrono::microseconds(50);
  experiment.end.steps = 80;
  return experiment;
}

training::Experiment one_device() {
  training::Experiment experiment = two_devices(Split::data);
  experiment.training.devices.clear();
  experiment.pipeline = {};
  return experiment;
}

DividedPeer divided(const training::Experiment& experiment) {
  const auto peer = divided_peer(experiment, plan_of(experiment));
  if (!peer) FAIL(peer.error().message);
  REQUIRE(peer->has_value());
  return **peer;
}

std::string why_undivided(const training::Experiment& experiment) {
  const auto peer = divided_peer(experiment, plan_of(experiment));
  REQUIRE_FALSE(peer.ok());
  return peer.error().message;
}

// What a group of two devices makes of the batches if their steps end in turn.
std::vector<float> in_turn(const training::Experiment& experiment) {
  auto data = training::load_data(experiment, "");
  REQUIRE(data.ok());
  const models::Plan plan = plan_of(experiment);
  const auto backend = training::make_host_backend(experiment);
  REQUIRE(backend.ok());
  models::Arena arena(plan.layout.arena_size());
  REQUIRE(training::write_starting_parameters(experiment, plan, arena).ok());
  training::DeviceGroup group(arena, {backend->get(), backend->get()});
  group.adopt();
  std::vector<std::unique_ptr<training::Worker>> workers;
  for (std::uint32_t device = 0; device < 2; ++device) {
    auto its = training::make_workers(experiment, plan, **backend, data->train, 0, 1, device);
    REQUIRE(its.ok());
    workers.push_back(std::move(its->front()));
    workers.back()->feed(group.replica(device));
  }
  for (std::uint64_t step = 0; step < *experiment.end.steps; ++step) {
    const std::size_t device = step % 2;
    workers[device]->land();
    if ((step + 1) % (2 * std::uint64_t{experiment.training.average_every}) == 0) group.average();
    workers[device]->feed(group.replica(device));
  }
  group.average();  // the last one
  return {arena.data(), arena.data() + arena.size()};
}

}  // namespace

TEST_CASE("devices with replicas make their own steps, and wait for the mean of the replicas") {
  training::Experiment experiment = two_devices(Split::data);
  const DividedPeer peer = divided(experiment);
  REQUIRE(peer.replicas);
  CHECK(peer.text == "data");
  const double bytes = static_cast<double>(plan_of(experiment).layout.arena_size() * sizeof(float));
  const double average = 2 * (bytes / 2 / 1.25e8 + 5e-5);  // two turns, each with a half
  CHECK(peer.replicas->average == Approx(average).epsilon(1e-9));
  CHECK(peer.step == Approx(0.015 + average / 8).epsilon(1e-9));
  // Of 80 steps each device makes 40; after the last mean it waits no more.
  CHECK(simulated(experiment).summary.seconds == Approx(40 * 0.03 + 9 * average).epsilon(1e-6));

  experiment.pipeline.speeds = {1, 0.25};
  const DividedPeer uneven = divided(experiment);
  CHECK(uneven.replicas->steps.at(1) == Approx(0.12).epsilon(1e-9));
  CHECK(uneven.step == Approx(1 / (1 / 0.03 + 1 / 0.12) + average / 8).epsilon(1e-9));
  experiment.end.steps = 400;
  CHECK(simulated(experiment).summary.seconds == Approx(400 * uneven.step).epsilon(0.02));
}

TEST_CASE("simulated devices with replicas learn as those of a real peer") {
  training::Experiment experiment = two_devices(Split::data);
  experiment.pipeline.bandwidth.reset();
  experiment.pipeline.latency.reset();
  experiment.end.steps = 44;
  training::Experiment of_device = experiment;
  of_device.training.devices.clear();
  CHECK((simulated(experiment).parameters == in_turn(of_device)));
}

TEST_CASE("the bytes of divided layers are those that their threads exchange") {
  const auto backend = kernels::make_backend("cpu");
  REQUIRE(backend.ok());
  for (const models::Plan& plan : training::testing::plans_for_stages()) {
    for (const std::size_t parts : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
      INFO(plan.spec.name << ", " << parts);
      const training::SlicedOptions options{.parts = parts, .seed = 1};
      if (!training::check_slices(plan, 8, options)) continue;
      const training::SliceTraffic wanted = training::SlicedNetwork(plan, **backend, 8, options).traffic();
      const SimulatedDevices devices{.speeds = std::vector<double>(parts, 1), .cuts = {}};
      const SliceTimes times = slice_times(plan, devices, 8, 1);
      CHECK(times.gathered == static_cast<double>(wanted.gathered));
      CHECK(times.reduced == static_cast<double>(wanted.reduced));
    }
  }
}

TEST_CASE("divided layers take the time of the slowest device and of the transfers, and learn alike") {
  const models::Plan plan = training::testing::planned(
      {"even", {64, 1, 1}, {models::Linear{64}, models::Linear{64}, models::Linear{64}}});
  SimulatedDevices devices{.speeds = {1, 1}, .cuts = {}};
  CHECK(slice_times(plan, devices, 32, 0.3).computing == Approx(0.15).epsilon(1e-9));
  CHECK(slice_times(plan, devices, 32, 0.3).transfers == 0);
  devices.speeds = {1, 0.5};
  CHECK(slice_times(plan, devices, 32, 0.3).computing == Approx(0.3).epsilon(1e-9));
  // Two gathered values go to both devices and the logits to one, forward and back; 32 floats of 32 samples.
  devices.bandwidth = 32 * 32 * 4 / 0.001;
  devices.latency = 0.002;
  CHECK(slice_times(plan, devices, 32, 0.3).transfers == Approx(6 * 0.003).epsilon(1e-9));

  const training::Experiment experiment = two_devices(Split::layers);
  const DividedPeer peer = divided(experiment);
  CHECK(peer.text == "each layer in 2 parts");
  const SimulatedRun sliced = simulated(experiment), whole = simulated(one_device());
  CHECK((sliced.parameters == whole.parameters));
  CHECK(sliced.summary.seconds == Approx(80 * peer.step).epsilon(1e-6));
  CHECK(whole.summary.seconds == Approx(80 * 0.03).epsilon(1e-6));
  CHECK(sliced.summary.per_peer.at(0).split == "each layer in 2 parts");
  CHECK_FALSE(whole.summary.per_peer.at(0).split.has_value());
}

TEST_CASE("auto takes the faster split of those that the memory allows, and says why") {
  training::Experiment experiment = two_devices(Split::automatic);
  experiment.model.name = "lenet";
  const auto with = [&](double rate, std::vector<double> speeds, std::optional<std::uint64_t> memory) {
    experiment.pipeline.bandwidth = rate;
    experiment.pipeline.speeds = std::move(speeds);
    experiment.pipeline.memory = memory;
    return divided(experiment);
  };
  const DividedPeer fast = with(1e11, {1, 1}, std::nullopt);
  CHECK(fast.settled.training.split == Split::data);
  CHECK(fast.text.starts_with("auto: data; a batch every "));
  CHECK(contains(fast.text, " ms, with stages every "));
  experiment.pipeline.schedule = training::PipelineSchedule::pipedream;
  experiment.training.average_every = 1;
  const DividedPeer slow = with(4e7, {1, 1}, std::nullopt);  // parameters take longer than activations
  CHECK(slow.settled.training.split == Split::stages);
  CHECK(slow.text.starts_with("auto: 2 stages: "));
  CHECK(contains(slow.text, ", with data every "));
  CHECK(slow.pipeline->step == slow.step);
  // The same from the same experiment, and the run is the one of the split that was chosen.
  CHECK(divided(experiment).text == slow.text);
  experiment.end.steps = 20;
  const SimulatedRun chosen = simulated(experiment);
  CHECK(chosen.summary.per_peer.at(0).split == slow.text);
  experiment.training.split = Split::stages;
  experiment.pipeline.cuts = slow.settled.pipeline.cuts;
  const SimulatedRun named = simulated(experiment);
  CHECK((named.parameters == chosen.parameters));
  CHECK(named.summary.seconds == chosen.summary.seconds);
  CHECK(warning_for_simulation(experiment).empty());

  experiment.training.split = Split::automatic;
  experiment.pipeline.cuts.clear();
  experiment.pipeline.schedule = training::PipelineSchedule::one_f_one_b;
  experiment.training.average_every = 8;
  const DividedPeer tight = with(1e11, {1, 1}, 2'000'000);  // less than the whole network needs
  CHECK(tight.settled.training.split == Split::stages);
  CHECK(tight.text.ends_with(", and data is impossible"));
}

TEST_CASE("impossible devices of every split are refused in one sentence") {
  training::Experiment experiment = two_devices(Split::automatic);
  experiment.pipeline.memory = 1000;
  CHECK(contains(why_undivided(experiment), "training.split: "));
  CHECK(contains(why_undivided(experiment), "memory"));
  experiment.training.split = Split::data;
  CHECK(contains(why_undivided(experiment), "memory"));
  experiment = two_devices(Split::layers);
  experiment.model.name = "softmax";
  experiment.training.devices.clear();
  for (int k = 0; k < 11; ++k) experiment.training.devices.push_back("cpu:" + std::to_string(k));
  CHECK(contains(why_undivided(experiment), "training.split: "));
  for (const Split split : {Split::data, Split::layers, Split::automatic}) {
    experiment = two_devices(split);
    experiment.pipeline.speeds = {1, 1, 1};
    const Status fine = training::check(experiment);
    REQUIRE_FALSE(fine.ok());
    CHECK(fine.error().message == "pipeline.speeds: 3 speeds, but training.devices has 2 devices");
  }
}

TEST_CASE("every split gives the same digits on any number of threads, among other peers", "[figures]") {
  for (const Split split : {Split::data, Split::layers, Split::automatic}) {
    training::Experiment experiment = two_devices(split);
    experiment.peers = 3;
    experiment.gossip.rule = Rule::pairwise;
    experiment.pipeline.speeds = {1, 0.7};
    experiment.end.steps.reset();
    experiment.end.epochs = 0.15;
    const SimulatedRun first = simulated(experiment, 1);
    REQUIRE(first.summary.trace_hash.has_value());
    const SimulatedRun again = simulated(experiment, 3);
    CHECK(again.summary.trace_hash == first.summary.trace_hash);
    CHECK((again.parameters == first.parameters));
    CHECK(first.summary.accuracy > 0.5);
  }
}

}  // namespace starling::lab

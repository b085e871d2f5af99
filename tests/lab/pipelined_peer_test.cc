// Simulated peers that consist of several devices.
#include "lab/simulate/pipelined_peer.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lab/report/report.h"
#include "lab/simulate/simulate.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/lab/even_network.h"
#include "tests/lab/report_folders.h"
#include "tests/training/temporary_folder.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/json.h"

namespace starling::lab {
namespace {

using training::Json;
using training::PipelineSchedule;

SimulatedDevices four_devices() { return {.speeds = {1, 1, 1, 1}, .cuts = {1, 2, 3}, .micro_batches = 8}; }

double step_of(const SimulatedDevices& devices, double whole = 0.24) {
  const auto peer = pipelined_peer(even_network(), devices, 64, whole);
  if (!peer) FAIL(peer.error().message);
  return peer->trace.seconds;
}

training::Experiment three_devices() {
  training::Experiment experiment;
  experiment.model.name = "mlp";
  experiment.data.source = "glyphs";
  experiment.peers = 3;
  experiment.training.devices = {"cpu:0", "cpu:1", "cpu:2"};
  experiment.training.split = training::Split::stages;
  experiment.training.pace = std::chrono::milliseconds(30);
  experiment.pipeline.micro_batches = 8;
  experiment.end.epochs = 0.1;
  return experiment;
}

struct Ran {
  training::Summary summary;
  std::vector<Json> pipelines;
};

Ran ran(const training::Experiment& experiment) {
  const training::TemporaryFolder scratch;
  auto folder = training::RunFolder::create(scratch.path() + "/run", false);
  REQUIRE(folder.ok());
  if (const Status fine = training::check(experiment); !fine) FAIL(fine.error().message);
  auto summary = simulate(experiment, {}, *folder);
  if (!summary) FAIL(summary.error().message);
  Ran result{*summary, {}};
  std::ifstream file(folder->file("pipelines.jsonl"));
  for (std::string line; std::getline(file, line);) result.pipelines.push_back(Json::parse(line));
  const auto report = read_report({folder->path()});
  if (!report) FAIL(report.error().message);
  CHECK(report->runs[0].pipelines.size() == result.pipelines.size());
  return result;
}

std::string refusal(const training::Experiment& experiment) {
  const Status fine = training::check(experiment);
  REQUIRE_FALSE(fine.ok());
  return fine.error().message;
}

}  // namespace

TEST_CASE("a step of equal devices takes the time of the formula") {
  // 8 micro-batches of 30 ms by four stages: (8 + 3) times 7.5 ms.
  CHECK(std::abs(step_of(four_devices()) - 11 * 0.0075) < 1e-12);
  SimulatedDevices devices = four_devices();
  devices.schedule = PipelineSchedule::layer_wise;
  devices.micro_batches = 1;
  CHECK(std::abs(step_of(devices) - 0.24) < 1e-12);
  devices.speeds = {2, 2, 2, 2};
  CHECK(std::abs(step_of(devices) - 0.12) < 1e-12);
}

TEST_CASE("a slow device makes its pipeline as slow as it is") {
  SimulatedDevices devices = four_devices();
  devices.micro_batches = 64;
  devices.speeds = {1, 1, 0.25, 1};
  const auto peer = pipelined_peer(even_network(), devices, 64, 0.24);
  REQUIRE(peer.ok());
  // Its 64 micro-batches take 4 x 60 ms in all; the others wait but for the first and the last one.
  CHECK(peer->trace.seconds > 0.24);
  CHECK(peer->trace.seconds < 0.24 * 1.05);
  CHECK(peer->trace.replicas[2].busy == Approx(0.24).epsilon(1e-9));
  CHECK(peer->trace.replicas[0].busy == Approx(0.06).epsilon(1e-9));
  CHECK(peer->layers == std::vector<std::string>{"fc1", "fc2", "fc3", "fc4"});
}

TEST_CASE("links, recomputation and memory count") {
  SimulatedDevices devices = four_devices();
  const double before = step_of(devices);
  devices.latency = 0.001;
  CHECK(step_of(devices) >= before + 6 * 0.001 - 1e-12);  // three cuts, both ways
  devices.latency = 0;
  devices.bandwidth = 8 * 64 * 4 / 0.001;  // a micro-batch has 8 samples of 64 floats: a millisecond
  CHECK(step_of(devices) >= before + 6 * 0.001 - 1e-12);
  devices = four_devices();
  devices.recomputation = training::Recomputation::always;
  CHECK(step_of(devices) == Approx(before * 4 / 3).epsilon(1e-9));
  devices.recomputation = training::Recomputation::except_last;
  CHECK(step_of(devices) > before);
  CHECK(step_of(devices) < before * 4 / 3);

  devices = four_devices();
  devices.memory = 1000;
  const auto little = pipelined_peer(even_network(), devices, 64, 0.24);
  REQUIRE_FALSE(little.ok());
  CHECK(contains(little.error().message, "memory"));
  // The first device has all layers but one; with less memory the planner cuts elsewhere.
  devices = {.speeds = {1, 1}, .cuts = {3}, .memory = 60'000, .micro_batches = 8};
  CHECK_FALSE(pipelined_peer(even_network(), devices, 64, 0.24).ok());
  devices.cuts_may_move = true;
  const auto moved = pipelined_peer(even_network(), devices, 64, 0.24);
  if (!moved) FAIL(moved.error().message);
  CHECK(moved->layers == std::vector<std::string>{"fc1 to fc2", "fc3 to fc4"});
}

TEST_CASE("replicas of a stage share the micro-batches of a simulated batch") {
  SimulatedDevices devices = four_devices();
  devices.cuts = {2, 3};
  devices.replicas = {2, 1, 1};
  const auto peer = pipelined_peer(even_network(), devices, 64, 0.24);
  if (!peer) FAIL(peer.error().message);
  CHECK(peer->shape.replicas == std::vector<std::uint32_t>{2, 1, 1});
  CHECK(peer->trace.replicas.size() == 4);
  devices.replicas.clear();
  devices.speeds = {1, 1, 1};
  CHECK(peer->step < step_of(devices));
  devices.replicas = {3, 1, 1};
  devices.speeds = {1, 1, 1, 1, 1};
  CHECK(pipelined_peer(even_network(), devices, 64, 0.24).error().message ==
        "8 micro-batches cannot be divided equally among 3 replicas of a stage");
}

TEST_CASE("a simulated peer of several devices learns like one device, in the time of its pipeline") {
  training::Experiment one = three_devices();
  one.training.devices.clear();
  const Ran alone = ran(one), pipelined = ran(three_devices());
  CHECK(alone.pipelines.empty());
  REQUIRE(pipelined.pipelines.size() == 1);
  const Json& line = pipelined.pipelines[0];
  CHECK(line.at("peers") == Json({"p0", "p1", "p2"}));
  CHECK(line.at("stages").size() == 3);
  CHECK(line.at("passes").size() == 2 * 3 * 8);
  const double step = line.at("step_seconds");
  CHECK(step < 0.03);
  CHECK(step > 0.01);
  CHECK(pipelined.summary.seconds / alone.summary.seconds == Approx(step / 0.03).epsilon(0.1));
  CHECK(std::abs(static_cast<double>(pipelined.summary.samples) -
                 static_cast<double>(alone.summary.samples)) <= 3 * 64);

  // The whole run of a single peer is the same, faster.
  training::Experiment single = three_devices();
  single.peers = 1;
  training::Experiment single_one = single;
  single_one.training.devices.clear();
  CHECK(ran(single).summary.loss == ran(single_one).summary.loss);
}

TEST_CASE("one slow device slows its peer, and peers with other devices have a pipeline of their own") {
  training::Experiment experiment = three_devices();
  training::OwnSettings own{.peers = 1};
  REQUIRE(training::set_own(own, "speeds", "0.25,1,1").ok());
  experiment.own = {own};
  const Ran result = ran(experiment);
  REQUIRE(result.pipelines.size() == 2);
  CHECK(result.pipelines[0].at("peers") == Json({"p0", "p2"}));
  CHECK(result.pipelines[1].at("peers") == Json({"p1"}));
  CHECK(result.pipelines[1].at("step_seconds") > result.pipelines[0].at("step_seconds"));
  CHECK(result.pipelines[1].at("stages").at(0).at("speed") == 0.25);
  CHECK(result.summary.per_peer.at(1).steps < result.summary.per_peer.at(0).steps);
}

TEST_CASE("impossible devices of a simulated peer are refused") {
  training::Experiment experiment = three_devices();
  experiment.pipeline.speeds = {1, 1};
  CHECK(contains(refusal(experiment), "pipeline.speeds: 2 speeds, but training.devices has 3 devices"));
  experiment = three_devices();
  training::OwnSettings own{.peers = 1};
  REQUIRE(training::set_own(own, "speeds", "1,1").ok());
  experiment.own = {own};
  CHECK(contains(refusal(experiment), "[[peer]]: pipeline.speeds: 2 speeds"));
  for (const char* speeds : {"", "0", "1,", "1,x", "1e9", "nan"})
    CHECK_FALSE(training::set_own(own, "speeds", speeds).ok());
  CHECK_FALSE(training::set_own(own, "bandwidth", "1Gbit/s").ok());  // might mean that of the network
  experiment = three_devices();
  experiment.pipeline.memory = 1000;
  const training::TemporaryFolder scratch;
  auto folder = training::RunFolder::create(scratch.path() + "/run", false);
  REQUIRE(folder.ok());
  const auto summary = simulate(experiment, {}, *folder);
  REQUIRE_FALSE(summary.ok());
  CHECK(contains(summary.error().message, "training.split: "));
}

TEST_CASE("a report has the pipelines of a run, and says which line is damaged") {
  const Folders folders;
  const std::string path = folders.summary("one", 1, std::nullopt);
  const std::string line =
      R"({"peers":["p0"],"schedule":"1f1b","micro_batches":1,"step_seconds":3,"bubble":0.5,)"
      R"("stages":[{"layers":"a","speed":1,"idle":0,"micro_batches_kept":1}],)"
      R"("passes":[{"stage":1,"pass":"forward","micro_batch":0,"begin_seconds":0,"end_seconds":1}]})";
  folders.write("one", "pipelines.jsonl", line + "\n");
  const auto report = read_report({path});
  REQUIRE(report.ok());
  REQUIRE(report->runs[0].pipelines.size() == 1);
  CHECK(report->runs[0].pipelines[0].passes.size() == 1);
  CHECK(contains(to_html(*report), R"("pipelines":[{"peers":"p0","schedule":"1f1b")"));
  std::string wrong = line;
  wrong.replace(wrong.find("\"stage\":1"), 9, "\"stage\":2");
  folders.write("one", "pipelines.jsonl", line + "\n" + wrong + "\n");
  const auto damaged = read_report({path});
  REQUIRE_FALSE(damaged.ok());
  CHECK(contains(damaged.error().message, "line 2 is not a line of a list of pipelines"));
}

}  // namespace starling::lab

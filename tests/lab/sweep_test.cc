#include "lab/simulate/sweep.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/lab/swarm_folder.h"

namespace starling::lab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Two rules by as many seeds.
training::Sweep small(const std::vector<std::string>& seeds, std::uint64_t steps = 10) {
  training::Sweep sweep;
  sweep.axes = {{"gossip.rule", {"pairwise", "none"}}, {"seed", seeds}};
  for (const char* rule : {"pairwise", "none"}) {
    for (const std::string& seed : seeds) {
      training::SweepPoint point;
      point.values = {rule, seed};
      point.name = "rule=" + std::string(rule) + ",seed=" + seed;
      point.experiment.model.name = "softmax";
      point.experiment.peers = 2;
      point.experiment.training.batch_size = 16;
      point.experiment.gossip.rule = *rule_named(rule);
      point.experiment.seed = std::stoull(seed);
      point.experiment.end.steps = steps;
      point.experiment.end.target_accuracy = 0.2;
      sweep.points.push_back(std::move(point));
    }
  }
  return sweep;
}

SweepOutcome run_all(const training::Sweep& sweep, const SweepOptions& options) {
  const auto outcome = run_sweep(sweep, options);
  REQUIRE((outcome.ok() ? "" : outcome.error().message) == std::string());
  return *outcome;
}

}  // namespace

TEST_CASE("a sweep runs each experiment once, with the same results on any number of threads") {
  const SwarmFolder scratch;
  std::vector<std::string> hashes;
  for (const unsigned threads : {1U, 3U}) {
    SweepOptions options;
    options.out = scratch.file(std::to_string(threads));
    options.threads = threads;
    std::size_t told = 0;
    options.finished = [&](const training::SweepPoint&, std::size_t done, std::size_t all, double,
                           const std::string&) {
      CHECK(done == ++told);
      CHECK(all == 4);
    };
    const auto outcome = run_all(small({"1", "2"}), options);
    CHECK(outcome.ran == 4);
    CHECK(outcome.kept == 0);
    CHECK_FALSE(outcome.interrupted);
    CHECK(told == 4);
    const json results = json::parse(scratch.read(std::to_string(threads) + "/results.json"));
    CHECK(results == json::parse(outcome.json));
    REQUIRE(results.at("runs").size() == 4);
    std::string hash;
    for (const json& it : results.at("runs")) {
      CHECK(it.at("values").at("gossip.rule") == it.at("summary").at("rule"));
      CHECK(fs::exists(options.out + "/" + it.at("folder").get<std::string>() + "/model.safetensors"));
      hash += it.at("summary").at("trace_hash").get<std::string>();
    }
    hashes.push_back(hash);
    const std::string csv = scratch.read(std::to_string(threads) + "/results.csv");
    CHECK(csv.rfind("gossip.rule,seed,accuracy,", 0) == 0);
    CHECK(std::count(csv.begin(), csv.end(), '\n') == 5);
    CHECK(csv.find("\npairwise,2,") != std::string::npos);
    CHECK(outcome.table.find("pairwise  2     0.") != std::string::npos);
    CHECK(outcome.table.find(" of 2\n") != std::string::npos);
  }
  CHECK(hashes[0] == hashes[1]);

  SweepOptions options;
  options.out = scratch.file("1");
  const auto again = run_all(small({"1", "2", "3"}), options);
  CHECK(again.ran == 2);
  CHECK(again.kept == 4);
  CHECK(json::parse(again.json).at("runs").size() == 6);
}

TEST_CASE("the next sweep makes the runs that a stopped one had not finished") {
  const SwarmFolder scratch;
  SweepOptions options;
  options.out = scratch.file("runs");
  options.threads = 1;
  bool stop = false;
  options.finished = [&](const training::SweepPoint&, std::size_t, std::size_t, double, const std::string&) {
    stop = true;
  };
  options.interrupted = [&] { return stop; };
  const auto first = run_all(small({"1", "2"}), options);
  CHECK(first.interrupted);
  CHECK(first.ran == 1);
  CHECK(json::parse(scratch.read("runs/results.json")).at("runs").size() == 1);
  options.interrupted = nullptr;
  const auto second = run_all(small({"1", "2"}), options);
  CHECK(second.ran == 3);
  CHECK(second.kept == 1);
  for (const auto& entry : fs::directory_iterator(options.out)) CHECK(entry.path().extension() != ".part");
}

TEST_CASE("a folder with the results of another experiment is not considered complete") {
  const SwarmFolder scratch;
  SweepOptions options;
  options.out = scratch.file("runs");
  run_all(small({"1"}), options);
  const auto other = run_sweep(small({"1"}, 11), options);
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().message.find(
            "contains the results of another experiment; choose another folder, or use --force") !=
        std::string::npos);
  options.force = true;
  CHECK(run_all(small({"1"}, 11), options).ran == 2);
}

TEST_CASE("an experiment that fails ends the sweep with its name") {
  const SwarmFolder scratch;
  SweepOptions options;
  options.out = scratch.file("runs");
  auto sweep = small({"1"});
  sweep.points[1].experiment.model.name = "nonesuch";
  const auto outcome = run_sweep(sweep, options);
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().message.find("rule=none,seed=1: ") == 0);
}

}  // namespace starling::lab

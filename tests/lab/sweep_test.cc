#include "lab/simulate/sweep.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/lab/swarm_folder.h"
#include "training/runs/records/looks.h"

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
    CHECK(csv.rfind("rule,seed,accuracy,", 0) == 0);
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

TEST_CASE("runs of data or first parameters that have changed since are not considered complete") {
  const SwarmFolder scratch;
  const auto write_table = [&](int shift) {
    std::ofstream file(scratch.file("my.csv"));
    file << "u,v,kind\n";
    for (int k = 0; k < 60; ++k) file << k % 7 + shift << "," << k % 5 << "," << k % 2 << "\n";
  };
  auto sweep = small({"1"});
  for (training::SweepPoint& point : sweep.points) point.experiment.data.source = scratch.file("my.csv");
  SweepOptions options;
  options.out = scratch.file("runs");
  write_table(0);
  CHECK(run_all(sweep, options).ran == 2);
  CHECK(run_all(sweep, options).kept == 2);
  write_table(1);
  const auto refused = run_sweep(sweep, options);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == "--out: data.source: the content of " + scratch.file("my.csv") +
                                       " has changed since the run in " + options.out + "/" +
                                       sweep.points[0].name +
                                       "; choose another folder, or use --force to repeat the runs");
  // The same for first parameters.
  for (training::SweepPoint& point : sweep.points)
    point.experiment.model.init = scratch.file("runs/rule=none,seed=1/model.safetensors");
  options.out = scratch.file("tuned");
  CHECK(run_all(sweep, options).ran == 2);
  fs::copy_file(scratch.file("tuned/rule=pairwise,seed=1/model.safetensors"),
                *sweep.points[0].experiment.model.init, fs::copy_options::overwrite_existing);
  CHECK(run_sweep(sweep, options).error().message.starts_with("--out: model.init: the content of "));
  options.force = true;
  CHECK(run_all(sweep, options).ran == 2);
}

TEST_CASE("the table of a sweep has a line for each kind, and counts no run twice") {
  const SwarmFolder scratch;
  const std::string path = scratch.file("sweep.toml");
  std::ofstream(path) << "peers = 2\nmodel.name = \"softmax\"\ndata.source = \"my.csv\"\n"
                         "[training]\nsteps = 4\nbatch_size = 4\n[sweep]\nseed = [1, 2]\n"
                         "gossip.clip = [1, 2]\ngossip.rule = [\"clipped\", \"pairwise\"]\n"
                         "training.pace = [\"30ms\"]\n";
  std::ofstream table(scratch.file("my.csv"));
  table << "u,v,kind\n";
  for (int k = 0; k < 60; ++k) table << k % 7 << "," << k % 5 << "," << k % 2 << "\n";
  table.close();
  auto sweep = training::read_sweep(path, [](const char*) -> const char* { return nullptr; },
                                    {{"data.source", scratch.file("my.csv")}});
  REQUIRE((sweep.ok() ? "" : sweep.error().message) == std::string());
  SweepOptions options;
  options.out = scratch.file("runs");
  const SweepOutcome outcome = run_all(*sweep, options);
  CHECK(outcome.ran == 8);
  std::vector<std::string> lines;
  std::istringstream text(outcome.table);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  REQUIRE(lines.size() == 4);
  CHECK(lines[1].starts_with("1     clipped   30ms  2 "));
  CHECK(lines[2].starts_with("      pairwise  30ms  2 "));
  CHECK(lines[3].starts_with("2     clipped   30ms  2 "));
}

TEST_CASE("a sweep names a run that ended before its faults") {
  const SwarmFolder scratch;
  SweepOptions options;
  options.out = scratch.file("runs");
  auto sweep = small({"1"});
  CHECK(run_all(sweep, options).late_faults.empty());
  sweep.points[1].experiment.faults = {
      {.peer = 1, .kind = training::Fault::Kind::crash, .from = std::chrono::hours(1)}};
  options.force = true;
  const SweepOutcome outcome = run_all(sweep, options);
  REQUIRE(outcome.late_faults.size() == 1);
  CHECK(outcome.late_faults[0].first == sweep.points[1].name);
  CHECK(outcome.late_faults[0].second.starts_with("1 fault has not happened, as the run took "));
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

TEST_CASE("a sweep that keeps going after a failed run makes all others and lists what failed") {
  const SwarmFolder scratch;
  SweepOptions options;
  options.out = scratch.file("runs");
  options.threads = 1;
  options.keep_going = true;
  std::vector<std::string> told;
  options.failed = [&](const training::SweepPoint& point, const std::string& reason) {
    told.push_back(point.name + ": " + reason);
  };
  auto sweep = small({"1", "2"});
  sweep.points[0].experiment.model.name = "nonesuch";
  const auto outcome = run_all(sweep, options);
  CHECK(outcome.ran == 3);
  CHECK_FALSE(outcome.interrupted);
  REQUIRE(outcome.failures.size() == 1);
  CHECK(outcome.failures[0].first == "rule=pairwise,seed=1");
  REQUIRE(told.size() == 1);
  CHECK(told[0] == outcome.failures[0].first + ": " + outcome.failures[0].second);
  CHECK(json::parse(outcome.json).at("runs").size() == 3);
  // The failed run is tried again.
  const auto again = run_all(small({"1", "2"}), options);
  CHECK(again.ran == 1);
  CHECK(again.kept == 3);
}

TEST_CASE("a sweep is estimated by its complete runs and by short runs, and nothing is written") {
  const SwarmFolder scratch;
  SweepOptions options;
  options.out = scratch.file("runs");
  options.threads = 2;
  const auto before = estimate_sweep(small({"1", "2"}, 100), options);
  REQUIRE(before.ok());
  CHECK_FALSE(fs::exists(options.out));
  CHECK(before->measured == 0);
  CHECK(before->calibrated == 2);  // rules
  REQUIRE(before->runs.size() == 4);
  double sum = 0;
  for (const auto& run : before->runs) {
    CHECK_FALSE(run.complete);
    REQUIRE(run.seconds.has_value());
    CHECK(*run.seconds > 0);
    sum += *run.seconds;
  }
  CHECK(before->seconds > 0.49 * sum);  // two at once
  CHECK(before->seconds < 0.51 * sum);

  run_all(small({"1"}, 100), options);
  auto sweep = small({"1", "2"}, 100);
  sweep.points[3].experiment.end.steps.reset();  // it ends only at its target
  const auto after = estimate_sweep(sweep, options);
  REQUIRE(after.ok());
  CHECK(after->measured == 2);
  CHECK(after->calibrated == 0);
  CHECK(after->runs[0].complete);
  CHECK(after->runs[1].seconds.has_value());
  CHECK_FALSE(after->runs[3].seconds.has_value());
  // A run of ten times the steps takes longer.
  auto longer = small({"1", "2"}, 100);
  longer.points[1].experiment.end.steps = 1000;
  CHECK(*estimate_sweep(longer, options)->runs[1].seconds > *after->runs[1].seconds);
}

TEST_CASE("results.csv has times to the target that are interpolated between two evaluations") {
  const SwarmFolder scratch;
  SweepOptions options;
  options.out = scratch.file("runs");
  auto sweep = small({"1"}, 10'000);
  for (auto& point : sweep.points) point.experiment.end.target_accuracy = 0.7;
  const auto outcome = run_all(sweep, options);
  const std::string csv = scratch.read("runs/results.csv");
  const json results = json::parse(outcome.json);
  for (const json& it : results.at("runs")) {
    const double look = it.at("summary").at("seconds_to_target").get<double>();
    const std::string folder = it.at("folder");
    const auto looks = training::looks_in(scratch.read("runs/" + folder + "/metrics.jsonl"));
    REQUIRE(looks.size() > 1);
    const double crossing = training::time_before(looks, 0.7, look);
    CHECK(crossing < look);
    CHECK(crossing > look - (looks.back().seconds - looks[looks.size() - 2].seconds));
    CHECK(csv.find(fmt::format(",{:.4g},", crossing)) != std::string::npos);
  }
}

}  // namespace starling::lab

// A simulation that is stopped anywhere and resumed gives the same results as one that is never stopped.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "lab/simulate/simulate.h"
#include "lab/simulate/simulation_file.h"
#include "models/spec_text.h"
#include "tests/catch.h"
#include "tests/seeds.h"
#include "tests/training/rhyme.h"
#include "tests/training/temporary_folder.h"
#include "training/runs/experiment/experiment_file.h"

namespace starling::lab {
namespace {

namespace fs = std::filesystem;

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// All results of a run except real times.
struct Left {
  std::string trace;
  std::uint64_t samples = 0, bytes_sent = 0;
  std::string model, metrics, timeline;
  friend bool operator==(const Left&, const Left&) = default;
};
Left left_by(const training::Summary& summary, const training::RunFolder& folder) {
  return {summary.trace_hash.value_or(""),
          summary.samples,
          summary.bytes_sent,
          content(folder.file("model.safetensors")),
          content(folder.file("metrics.jsonl")),
          content(folder.file("timeline.jsonl"))};
}

training::Experiment experiment_of(Rule rule, std::uint32_t workers) {
  training::Experiment experiment;
  experiment.model.name = "softmax";
  experiment.data.source = "glyphs";
  experiment.peers = 6;
  experiment.training.workers = workers;
  experiment.end.epochs = 0.1;
  experiment.gossip.rule = rule;
  if (rule == Rule::d_psgd) experiment.gossip.topology = "ring";
  return experiment;
}

// Changes the experiment to one that trains a small GPT on a text, which is written to `path`.
void learn_text(training::Experiment& experiment, const std::string& path) {
  std::ofstream(path) << training::rhyme(60);
  const auto network = models::read_model(
      "type = 'gpt'\nlayers = 1\nheads = 2\nfeatures = 32\ncontext = 16\ndropout = 0.1", "file");
  REQUIRE(network.ok());
  experiment.model.name = network->name;
  experiment.model.layers = network->layers;
  experiment.data.source = path;
  experiment.gossip.rule = Rule::noloco;
  experiment.gossip.payload = Payload::int8;
  experiment.gossip.fragments = 2;
  experiment.gossip.every = Pace{.steps = 4};
  experiment.optimizer.name = "adamw";
  experiment.optimizer.clip_norm = 1;
  experiment.training.batch_size = 4;
  experiment.end.epochs.reset();
  experiment.end.steps = 40;
}

Left run_whole(const training::Experiment& experiment, const std::string& path) {
  auto folder = training::RunFolder::create(path, false);
  REQUIRE(folder.ok());
  const auto summary = simulate(experiment, {}, *folder);
  if (!summary) FAIL(summary.error().message);
  return left_by(*summary, *folder);
}

// Interrupts the run after this many steps and resumes it, until it ends by itself.
Left run_in_pieces(const training::Experiment& experiment, const std::string& path, std::uint64_t steps,
                   int& pieces, std::vector<std::string>& notices) {
  for (pieces = 1; pieces < 100; ++pieces) {
    auto folder = pieces == 1 ? training::RunFolder::create(path, false) : training::RunFolder::resume(path);
    REQUIRE(folder.ok());
    SimulateOptions options;
    options.threads = 1 + static_cast<unsigned>(pieces % 2);
    options.resume = pieces > 1;
    std::uint64_t due = 0;
    options.checkpoint_due = [&] { return ++due % 7 == 0; };
    options.interrupted = [&] { return due == steps; };
    options.notice = [&](const std::string& sentence) { notices.push_back(sentence); };
    const auto summary = simulate(experiment, options, *folder);
    if (!summary) FAIL(summary.error().message);
    if (!fs::exists(folder->file(kSimulationFile))) return left_by(*summary, *folder);
  }
  FAIL("it does not end");
  return {};
}

}  // namespace

TEST_CASE("with every rule, a resumed simulation has the results of an uninterrupted one, to the last bit",
          "[figures]") {
  const Rule rule =
      GENERATE(from_range(some_of({Rule::pairwise, Rule::push_sum, Rule::d_psgd, Rule::choco, Rule::noloco,
                                   Rule::clipped, Rule::parameter_server, Rule::ssp, Rule::none},
                                  3)));
  const std::uint32_t workers = rule == Rule::pairwise || rule == Rule::choco ? 2 : 1;
  const training::TemporaryFolder scratch;
  const auto experiment = experiment_of(rule, workers);
  INFO(traits(rule).name);
  const Left whole = run_whole(experiment, scratch.path() + "/whole");
  for (const std::uint64_t steps : {23, 37}) {
    if (steps == 37 && !all_seeds()) continue;
    int pieces = 0;
    std::vector<std::string> notices;
    const Left resumed = run_in_pieces(experiment, scratch.path() + "/pieces-" + std::to_string(steps), steps,
                                       pieces, notices);
    CHECK(pieces > 2);
    CHECK(notices.empty());
    CHECK(resumed.trace == whole.trace);
    CHECK(resumed == whole);
  }
}

TEST_CASE("a resumed simulation has the same results with payloads, optimizers, changed images and churn",
          "[figures]") {
  const training::TemporaryFolder scratch;
  auto experiment = experiment_of(Rule::pairwise, 1);
  SECTION("top-k") { experiment.gossip.payload = Payload::top_k; }
  SECTION("choco, int8") {
    experiment.gossip.rule = Rule::choco;
    experiment.gossip.payload = Payload::int8;
  }
  SECTION("bf16, AdamW") {
    experiment.gossip.payload = Payload::bf16;
    experiment.optimizer.name = "adamw";
  }
  SECTION("clipped AdamW in its warm-up, and cosine, both in steps") {
    experiment.optimizer.name = "adamw";
    experiment.optimizer.weight_decay = 0.1;
    experiment.optimizer.clip_norm = 0.5;
    experiment.schedule.name = "cosine";
    experiment.schedule.warmup = {12, training::Warmup::Unit::steps};
    experiment.end.epochs.reset();
    experiment.end.steps = 20;
  }
  SECTION("momentum of the swarm, changed images") {
    experiment.optimizer.quasi_global_momentum = true;
    experiment.training.crop = 2;
    experiment.training.flip = true;
  }
  SECTION("crashes, returns, late joiners, a straggler") {
    training::Fault crash;
    crash.kind = training::Fault::Kind::crash;
    crash.peer = *training::PeerSet::parse("2");
    crash.from = std::chrono::milliseconds(300);
    experiment.faults.push_back(crash);
    training::Fault back = crash;
    back.kind = training::Fault::Kind::join;
    back.peer = *training::PeerSet::parse("4");
    experiment.faults.push_back(back);
  }
  SECTION("a text, with dropout, AdamW and outer steps") {
    learn_text(experiment, scratch.path() + "/rhyme.txt");
  }
  static std::uint64_t number = 0;
  if (!is_turn_of(number++, 7, 3)) return;
  const Left whole = run_whole(experiment, scratch.path() + "/whole");
  int pieces = 0;
  std::vector<std::string> notices;
  CHECK(run_in_pieces(experiment, scratch.path() + "/pieces", 37, pieces, notices) == whole);
  CHECK(pieces > 2);
  CHECK(notices.empty());
}

TEST_CASE("a resumed simulation of peers with several devices has the same results", "[figures]") {
  const training::TemporaryFolder scratch;
  auto experiment = experiment_of(Rule::pairwise, 1);
  SECTION("stages without a flush") {
    experiment.model.name = "mlp";
    experiment.peers = 4;
    experiment.training.devices = {"cpu:0", "cpu:1", "cpu:2"};
    experiment.training.split = training::Split::stages;
    experiment.pipeline.schedule = training::PipelineSchedule::pipedream;
    experiment.pipeline.micro_batches = GENERATE(1U, 3U);
    experiment.pipeline.vertical_sync = experiment.pipeline.micro_batches == 3;
    experiment.end.epochs = 0.2;
  }
  SECTION("devices with replicas") {
    experiment.training.devices = {"cpu:0", "cpu:1"};
    experiment.training.average_every = 3;
    experiment.pipeline.speeds = {1, 0.6};
    experiment.optimizer.quasi_global_momentum = GENERATE(false, true);
  }
  static std::uint64_t number = 0;
  if (!is_turn_of(number++, 4)) return;
  const Left whole = run_whole(experiment, scratch.path() + "/whole");
  int pieces = 0;
  std::vector<std::string> notices;
  CHECK((run_in_pieces(experiment, scratch.path() + "/pieces", 37, pieces, notices) == whole));
  CHECK(pieces > 2);
  CHECK(notices.empty());
}

TEST_CASE("resuming without a checkpoint, with another experiment, or with a damaged file is an error") {
  const training::TemporaryFolder scratch;
  auto experiment = experiment_of(Rule::pairwise, 1);
  auto folder = training::RunFolder::create(scratch.path() + "/run", false);
  REQUIRE(folder.ok());
  SimulateOptions options;
  options.resume = true;
  REQUIRE(folder->write("summary.json", "{}").ok());
  const auto nothing = simulate(experiment, options, *folder);
  REQUIRE_FALSE(nothing.ok());
  CHECK(nothing.error().message ==
        "cannot resume: " + folder->path() + " has no checkpoint; none was written, or the run has ended");
  CHECK(fs::exists(folder->file("summary.json")));  // what a run left stays
  options.resume = false;
  int asked = 0;
  options.checkpoint_due = [] { return false; };
  options.interrupted = [&] { return ++asked == 20; };
  REQUIRE(simulate(experiment, options, *folder).ok());
  options.resume = true;
  options.interrupted = nullptr;
  auto other = experiment;
  other.seed += 1;
  const auto refused = simulate(other, options, *folder);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        folder->file(kSimulationFile) +
            " is a checkpoint of another experiment: resume with the same file and flags");
  const std::string file = folder->file(kSimulationFile), bytes = content(file);
  {  // a checkpoint that knows of other data
    const auto known = SimulationFile::open(file, training::to_toml(experiment));
    REQUIRE(known.ok());
    const std::string hash = known->contents().at("data.source");
    std::string changed = bytes;
    const std::size_t at = changed.find("\"" + hash + "\"");
    REQUIRE(at != std::string::npos);
    changed.replace(at + 1, 4, hash.starts_with("0000") ? "1111" : "0000");
    // Its check sums, too, are of other data.
    for (const char* key : {"\"crc32\"", "\"header_crc32\""}) changed.replace(changed.find(key) + 1, 2, "no");
    std::ofstream(file, std::ios::binary) << changed;
    const auto stale = simulate(experiment, options, *folder);
    REQUIRE_FALSE(stale.ok());
    CHECK(stale.error().message == "cannot resume: data.source: the content of " + experiment.data.source +
                                       " has changed since the checkpoint was written");
    std::ofstream(file, std::ios::binary) << bytes;
  }
  std::string spoiled = bytes;
  spoiled[spoiled.size() / 2] = static_cast<char>(~spoiled[spoiled.size() / 2]);
  std::ofstream(file, std::ios::binary) << spoiled;
  CHECK_FALSE(simulate(experiment, options, *folder).ok());
  std::ofstream(file, std::ios::binary) << bytes.substr(0, bytes.size() - 9);
  CHECK_FALSE(simulate(experiment, options, *folder).ok());
  CHECK_FALSE(training::RunFolder::resume(scratch.path() + "/nowhere").ok());
}

}  // namespace starling::lab

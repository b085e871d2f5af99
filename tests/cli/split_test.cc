// Peers whose devices hold one replica together.
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/seeds.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

Words swarm_of(const TemporaryFolder& folder, const Words& more) {
  Words words = {"swarm",        "--peers", "2",       "--model", "lenet", "--data",           "glyphs",
                 "--batch-size", "32",      "--steps", "300",     "--out", folder.file("run"), "--force",
                 "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json result_of(const Words& words) {
  const Outcome outcome = run(words);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return json::parse(outcome.out);
}

std::string log_of(const TemporaryFolder& folder) {
  std::ifstream file(folder.file("run/p0.log"));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("peers in stages learn and exchange like others, with every schedule", "[figures]") {
  const TemporaryFolder folder;
  for (const char* schedule : some_of({"1f1b", "gpipe", "layer-wise", "pipedream"})) {
    INFO(schedule);
    const json result = result_of(swarm_of(
        folder, {"--devices", "cpu:0,cpu:1", "--split", "stages", "--cuts", "6", "--pipeline", schedule}));
    CHECK(result.at("accuracy").get<double>() > 0.8);
    CHECK(result.at("exchanges").at("completed").get<double>() > 0);
    const std::string log = log_of(folder);
    INFO(log);
    CHECK(has(log, std::string("on cpu:0,cpu:1 (2 stages: conv1 to pool2, fc1 to fc2; ") + schedule));
  }
}

TEST_CASE("a run of peers in stages shows what each stage took, and draws it") {
  const TemporaryFolder folder;
  const json result = result_of(swarm_of(
      folder, {"--devices", "cpu:0,cpu:1", "--split", "stages", "--cuts", "6", "--micro-batches", "4"}));
  for (const json& peer : result.at("per_peer")) {
    CHECK(peer.at("split") == "2 stages: conv1 to pool2, fc1 to fc2; 1f1b, 4 micro-batches of 8 samples");
    const json& pipeline = peer.at("pipeline");
    CHECK(pipeline.at("measured") == true);
    CHECK(pipeline.at("steps") >= peer.at("steps"));
    CHECK(pipeline.at("stages").size() == 2);
    double idle = 0;
    for (const json& stage : pipeline.at("stages")) {
      CHECK(stage.at("busy_seconds").get<double>() > 0);
      idle += stage.at("idle").get<double>();
    }
    CHECK(std::abs(pipeline.at("bubble").get<double>() - idle / 2) < 1e-9);
  }
  std::ifstream file(folder.file("run/pipelines.jsonl"));
  std::size_t pipelines = 0;
  for (std::string line; std::getline(file, line); ++pipelines) {
    const json pipeline = json::parse(line);
    CHECK(pipeline.at("peers").size() == 1);
    CHECK(pipeline.at("passes").size() == 2 * (2 * 4 + 1));  // four forward, four backward passes, an update
  }
  CHECK(pipelines == 2);
  CHECK(has(read_whole(folder.file("run/report.html")), R"("pipelines":[{"peers":"p0","schedule":"1f1b")"));
}

TEST_CASE("four stages on two groups of processors learn, and the summary prints their stages") {
  const TemporaryFolder folder;
  Words words = swarm_of(folder, {"--devices", "cpu:0,cpu:1,cpu:0,cpu:1", "--split", "stages"});
  std::erase(words, "--json");
  const Outcome outcome = run(words);
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);
  for (const char* part : {"stages of p0: 1f1b, 16 micro-batches, a step in ", "busy per step", "versions",
                           "devices   p0, p1: 4 stages: conv1"})
    CHECK(has(outcome.out, part));
}

TEST_CASE("starling status prints the stages of a peer") {
  Program peer({"peer", "--listen", "none", "--http", "127.0.0.1:0", "--export", "none", "--model", "lenet",
                "--data", "glyphs", "--seconds", "100000", "--devices", "cpu:0,cpu:1", "--split", "stages",
                "--cuts", "6"});
  const std::string http = peer.wait_for_error_word("HTTP at ");
  std::string text;
  REQUIRE(eventually([&] { return has(text = run({"status", "--at", http}).out, "busy per step"); }));
  INFO(text);
  CHECK(has(text, "devices    2 stages: conv1 to pool2, fc1 to fc2; 1f1b, "));
  CHECK(has(text, "stages     1f1b, "));
  CHECK(has(text, "conv1 to pool2  cpu:0 "));
  CHECK(has(text, "fc1 to fc2      cpu:1 "));
  peer.signal(SIGTERM);
  CHECK(peer.finish().exit_code == 0);
}

TEST_CASE("stages of peers may have replicas", "[figures]") {
  const TemporaryFolder folder;
  for (const char* schedule : some_of({"1f1b", "pipedream"})) {
    INFO(schedule);
    const json result = result_of(swarm_of(folder, {"--devices", "cpu:0,cpu:1,cpu:2", "--split", "stages",
                                                    "--stage-replicas", "2,1", "--pipeline", schedule}));
    CHECK(result.at("accuracy").get<double>() > 0.8);
    CHECK(result.at("exchanges").at("completed").get<double>() > 0);
    const std::string log = log_of(folder);
    INFO(log);
    CHECK(has(log, "on cpu:0,cpu:1,cpu:2 (2 stages: conv1 to "));
    CHECK(has(log, " on 2 devices, "));
  }
}

TEST_CASE("peers with divided layers learn and exchange like others", "[figures]") {
  const TemporaryFolder folder;
  const json result = result_of(swarm_of(folder, {"--devices", "cpu:0,cpu:1", "--split", "layers"}));
  CHECK(result.at("accuracy").get<double>() > 0.8);
  CHECK(result.at("exchanges").at("completed").get<double>() > 0);
  CHECK(has(log_of(folder), "on cpu:0,cpu:1 (each layer in 2 parts)"));
}

TEST_CASE("groups of processors may also have a replica each, and auto decides", "[figures]") {
  const TemporaryFolder folder;
  for (const char* split : some_of({"data", "auto"})) {
    INFO(split);
    const json result = result_of(swarm_of(folder, {"--devices", "cpu:0,cpu:1", "--split", split}));
    CHECK(result.at("accuracy").get<double>() > 0.8);
    const std::string log = log_of(folder);
    INFO(log);
    const std::string chosen = result.at("per_peer").at(0).at("split");
    CHECK(has(log, "on cpu:0,cpu:1 (" + chosen + ")"));
    if (split == std::string("data")) {
      CHECK(chosen == "data");
    } else {
      CHECK((chosen.starts_with("auto: data; the planner expects a batch every ") ||
             chosen.starts_with("auto: 2 stages: ")));
    }
  }
}

TEST_CASE("a split that is impossible is refused in one sentence, before any peer starts") {
  const TemporaryFolder folder;
  const auto refusal = [&](const Words& more) {
    const Outcome outcome = run(swarm_of(folder, more));
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  const Words two = {"--devices", "cpu:0,cpu:1", "--split", "stages"};
  const auto with = [&two](Words more) {
    more.insert(more.begin(), two.begin(), two.end());
    return more;
  };
  CHECK(refusal(with({"--cuts", "30"})) ==
        "starling swarm: training.split: a stage cannot begin with layer 30: cuts are ascending, from 1 to "
        "8\n");
  CHECK(has(refusal(with({"--cuts", "3,5"})), "2 cuts make 3 stages, but training.devices has 2 devices"));
  CHECK(has(refusal(with({"--micro-batches", "5"})), "a batch of 32 samples cannot be divided into 5"));
  CHECK(has(refusal(with({"--workers", "2"})), "are one worker; set it to 1"));
  CHECK(has(refusal(with({"--pipeline", "pipedream", "--clip-norm", "1"})),
            "training.clip_norm: the schedule"));
  CHECK(has(refusal({"--devices", "cpu:0,gpu:1"}), "does not name devices of one kind"));
  CHECK(has(refusal({"--recompute", "except-last"}), "except-last needs stages"));
}

TEST_CASE("--recompute alone means always") {
  const auto value = [](const Words& words) {
    Words all = {"peer", "--print-config"};
    all.insert(all.end(), words.begin(), words.end());
    const std::string config = run(all).out;
    const auto at = config.find("recompute = \"");
    if (at == std::string::npos) return std::string();
    const auto begin = at + std::string("recompute = \"").size();
    return config.substr(begin, config.find('"', begin) - begin);
  };
  CHECK(value({"--recompute"}) == "always");
  CHECK(value({"--recompute", "--workers", "2"}) == "always");
  CHECK(value({"--recompute", "always", "--workers", "2"}) == "always");
  CHECK(value({"--recompute=never"}) == value({}));
  CHECK(value({"--recompute", "never"}) == value({}));
  CHECK(has(run({"peer", "--recompute", "sometimes"}).err, "unexpected argument 'sometimes'"));
}

}  // namespace starling::cli_tests

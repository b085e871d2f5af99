// Bulk-synchronous training on real processes, over Gloo.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "node/all_reduce/collective.h"
#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/cli/program.h"
#include "tests/seeds.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

Words swarm(const std::string& out, const Words& more) {
  Words words = {"swarm",   "--rule", "all-reduce", "--peers", "3", "--model",
                 "softmax", "--data", "glyphs",     "--out",   out, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void check_equal_replicas(const std::string& out, int peers) {
  const std::string first = read_whole(out + "/p0.safetensors");
  REQUIRE(first.size() > 1000);
  for (int i = 1; i < peers; ++i)
    CHECK((read_whole(out + "/p" + std::to_string(i) + ".safetensors") == first));
}

std::string with_faults(const TemporaryFolder& folder, const std::string& faults) {
  folder.write("experiment.toml", faults);
  return folder.file("experiment.toml");
}

}  // namespace

TEST_CASE("three processes train by all-reduce and end with identical replicas", "[figures]") {
  if (!node::check_collectives()) return;
  const TemporaryFolder folder;
  const std::string out = folder.file("run");
  Words words = swarm(out, {"--epochs", "0.1"});
  *std::find(words.begin(), words.end(), "softmax") = "lenet";
  const json summary = summary_of(run(words));
  CHECK(summary.at("rule") == "all-reduce");
  CHECK(summary.at("accuracy").get<double>() > 0.5);
  CHECK(summary.at("consensus_distance") == 0);
  CHECK(summary.at("samples") == 32 * 3 * 64);
  CHECK(summary.at("exchanges").at("completed") == 32);
  CHECK(summary.at("bytes_sent").get<double>() == Approx(32.0 * 2 * 2 * 4 * 129'000).epsilon(0.01));
  for (const json& peer : summary.at("per_peer")) {
    CHECK(peer.at("state") == "finished");
    CHECK(peer.at("steps") == 32);
    CHECK(peer.at("exchanges") == 32);
  }
  check_equal_replicas(out, 3);
  CHECK_FALSE(std::filesystem::exists(out + "/rendezvous"));
}

TEST_CASE("processes and the simulator agree up to rounding") {
  if (!node::check_collectives()) return;
  const TemporaryFolder folder;
  const json real =
      summary_of(run(swarm(folder.file("real"), {"--steps", "40", "--schedule", "cosine", "--epochs", "1"})));
  Words words = swarm(folder.file("virtual"), {"--steps", "40", "--schedule", "cosine", "--epochs", "1"});
  words.front() = "simulate";
  const json simulated = summary_of(run(words));
  CHECK(real.at("samples") == simulated.at("samples"));
  CHECK(real.at("loss").get<double>() == Approx(simulated.at("loss").get<double>()).epsilon(1e-3));
}

TEST_CASE("processes train by diloco and end with the replicas that the simulator computes") {
  if (!node::check_collectives()) return;
  for (const std::string& payload : some_of<std::string>({"f32", "bf16", "int8"})) {
    const TemporaryFolder folder;
    // Three whole rounds of each fragment, and a last one of 6 steps that averages both.
    const Words more = {"--rule", "diloco",  "--model", "mlp",       "--every", "20 steps", "--fragments",
                        "2",      "--steps", "66",      "--payload", payload,   "--force"};
    Words words = swarm(folder.file("real"), more);
    words.erase(words.begin() + 1, words.begin() + 3);  // the rule
    words.erase(std::find(words.begin(), words.end(), "--model"),
                std::find(words.begin(), words.end(), "--data"));
    const json real = summary_of(run(words));
    check_equal_replicas(folder.file("real"), 3);
    words.front() = "simulate";
    *std::find(words.begin(), words.end(), folder.file("real")) = folder.file("virtual");
    const json simulated = summary_of(run(words));
    CHECK(real.at("rule") == "diloco");
    CHECK(real.at("samples") == 3 * 66 * 64);
    CHECK(real.at("exchanges").at("completed") == 7);
    CHECK(simulated.at("exchanges").at("completed") == 7);
    CHECK(real.at("consensus_distance") == 0);
    CHECK(real.at("loss").get<double>() == Approx(simulated.at("loss").get<double>()).epsilon(1e-3));
    CHECK(real.at("bytes_sent").get<double>() ==
          Approx(simulated.at("bytes_sent").get<double>()).epsilon(0.01));
  }
}

TEST_CASE("all-reduce waits for slow and paused processes") {
  if (!node::check_collectives()) return;
  const TemporaryFolder folder;
  const std::string out = folder.file("run");
  const std::string file =
      with_faults(folder, "[[fault]]\npeer = 2\npause = true\nfrom = \"100ms\"\nto = \"1500ms\"\n");
  Words words = swarm(out, {"--steps", "60", "--pace", "5ms", "--slow", "1=4"});
  words.insert(words.begin() + 1, file);
  const json summary = summary_of(run(words));
  // A pause can begin late, but within the 60 steps, which take 1.2 s.
  CHECK(summary.at("seconds").get<double>() >= 1.4);
  for (const json& peer : summary.at("per_peer")) CHECK(peer.at("steps") == 60);
  check_equal_replicas(out, 3);

  // The time lines show which peers waited.
  std::map<std::string, double> waited;  // seconds
  std::ifstream timeline(out + "/timeline.jsonl");
  for (std::string line; std::getline(timeline, line);) {
    const json cell = json::parse(line);
    waited[cell.at("peer")] +=
        (cell.at("to").get<double>() - cell.at("from").get<double>()) * cell.at("waiting").get<double>();
  }
  CHECK(waited.at("p0") > waited.at("p1"));
  CHECK(waited.at("p0") > 0.7);
}

TEST_CASE("a peer that stays paused stops an all-reduce") {
  if (!node::check_collectives()) return;
  const TemporaryFolder folder;
  const std::string file = with_faults(folder, "[[fault]]\npeer = 1\npause = true\nfrom = \"200ms\"\n");
  Words words = swarm(folder.file("run"), {"--steps", "100000", "--pace", "5ms"});
  words.insert(words.begin() + 1, file);
  const json summary = summary_of(run(words));
  CHECK(summary.at("per_peer").at(0).at("steps").get<int>() < 1000);
  check_equal_replicas(folder.file("run"), 3);
}

TEST_CASE("an all-reduce ends by time, target or Ctrl-C with equal replicas") {
  if (!node::check_collectives()) return;
  const TemporaryFolder folder;
  const std::string out = folder.file("run");
  const json timed = summary_of(run(swarm(out, {"--seconds", "0.5", "--pace", "5ms"})));
  CHECK(timed.at("seconds").get<double>() >= 0.5);
  check_equal_replicas(out, 3);

  const json reached =
      summary_of(run(swarm(folder.file("target"), {"--target-accuracy", "0.5", "--pace", "5ms"})));
  CHECK(reached.at("seconds_to_target").is_number());
  CHECK(reached.at("accuracy").get<double>() > 0.45);

  Program asked(swarm(folder.file("asked"), {"--epochs", "1000", "--pace", "5ms"}));
  REQUIRE(asked.wait_for_error_text("loss"));  // it trains
  asked.signal(SIGINT);
  const Outcome outcome = asked.finish();
  CHECK(outcome.exit_code == 130);
  const json summary = json::parse(outcome.out);
  for (const json& peer : summary.at("per_peer")) CHECK(peer.at("state") == "stopped");
  check_equal_replicas(folder.file("asked"), 3);
}

TEST_CASE("a process that dies ends an all-reduce with an error from each other process") {
  if (!node::check_collectives()) return;
  const TemporaryFolder folder;
  const std::string out = folder.file("run");
  const std::string file = with_faults(folder, "[[fault]]\npeer = 1\ncrash = true\nfrom = \"300ms\"\n");
  Words words = swarm(out, {"--steps", "100000", "--pace", "5ms"});
  words.insert(words.begin() + 1, file);
  Program program(words);
  const auto outcome = program.finish_within(kHang);
  REQUIRE(outcome.has_value());
  CHECK(outcome->exit_code == 1);
  CHECK(contains(outcome->err, "p1 ended with signal 9"));
  CHECK(contains(outcome->err, "no peer finished, so there is no model"));
  for (const char* other : {"p0", "p2"}) {
    CAPTURE(outcome->err);
    CHECK(contains(outcome->err, std::string(other) + " ended with exit code 1: the all-reduce after "));
    const std::string log = read_whole(out + "/" + other + ".log");
    CHECK(contains(log, "steps failed, because another peer is gone or silent: "));
  }
  const json summary = json::parse(read_whole(out + "/summary.json"));
  for (const json& peer : summary.at("per_peer")) CHECK(peer.at("state") == "crashed");
  CHECK(summary.at("accuracy").is_null());
}

TEST_CASE("peers of an all-reduce wait for a missing peer only for --patience") {
  if (!node::check_collectives()) return;
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("meeting"));
  const Words alone = {
      "peer", "--rule",       "all-reduce",           "--model",    "softmax", "--slot", "0/2", "--steps",
      "5",    "--rendezvous", folder.file("meeting"), "--patience", "500ms"};
  Program waiting(alone);
  const auto outcome = waiting.finish_within(kHang);
  REQUIRE(outcome.has_value());
  CHECK(outcome->exit_code == 1);
  CHECK(contains(outcome->err, "starling peer: the peers did not join: "));

  // A peer that is asked to leave meanwhile ends at once.
  const std::string meeting = folder.file("other");
  std::filesystem::create_directory(meeting);
  Words patient = alone;
  patient.back() = "1h";
  patient[patient.size() - 3] = meeting;
  Program asked(patient);
  REQUIRE(eventually([&] { return !std::filesystem::is_empty(meeting); }));  // then it waits there
  asked.signal(SIGTERM);
  const auto left = asked.finish_within(std::chrono::seconds(3));
  REQUIRE(left.has_value());
  CHECK(left->exit_code == 1);
  CHECK(contains(left->err, "asked to end before all 2 peers had joined"));
}

TEST_CASE("settings that all-reduce does not support are rejected") {
  const auto refused = [](const Words& words, const std::string& why) {
    const Outcome outcome = run(words);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(contains(outcome.err, why));
  };
  const TemporaryFolder folder;
  refused({"peer", "--rule", "all-reduce"}, "the peers of a run by all-reduce must begin together");
  refused({"peer", "--rule", "all-reduce", "--join", "127.0.0.1:7100"},
          "--rule cannot be combined with --join");
  refused({"hunt", "--rule", "all-reduce"}, "--rule: 'all-reduce' is unknown; expected pairwise");
  refused(swarm(folder.file("a"), {"--latency", "1ms"}), "network.latency: all-reduce between processes");
  refused(swarm(folder.file("a"), {"--bandwidth", "1Mbit/s"}),
          "network.bandwidth: all-reduce between processes");
  for (const char* command : {"swarm", "simulate"}) {
    Words words = swarm(folder.file("a"), {"--workers", "2"});
    words.front() = command;
    refused(words, "training.workers: all-reduce has one worker in each peer");
    words = swarm(folder.file("a"), {});
    words.front() = command;
    words.insert(words.begin() + 1,
                 with_faults(folder, "[[fault]]\npeer = 1\nleave = true\nfrom = \"1s\"\n"));
    refused(words, "the fault leave of peer 1: all-reduce needs every peer from the first step to the last");
  }
  if (!node::check_collectives()) refused(swarm(folder.file("a"), {}), "built without Gloo");
}

}  // namespace starling::cli_tests

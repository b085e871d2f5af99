// Rules with parameter servers, on real processes and in virtual time.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/cli/program.h"
#include "tests/seeds.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

Words served(const std::string& command, const std::string& rule, const std::string& out, const Words& more) {
  Words words = {command, "--rule", rule,     "--servers", "2", "--peers", "3", "--model",
                 "mlp",   "--data", "glyphs", "--epochs",  "1", "--out",   out, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Checks that hold in virtual time and for processes.
void check_run(const json& summary, std::size_t servers) {
  // A run ends when a look reaches 0.9; the steps under way follow.
  CHECK(summary.at("accuracy").get<double>() > 0.85);
  CHECK(summary.at("peers") == 3);
  REQUIRE(summary.at("per_peer").size() == 3 + servers);
  for (std::size_t i = 0; i < 3 + servers; ++i) {
    const json& peer = summary.at("per_peer").at(i);
    const bool serves = i >= 3;
    CHECK(peer.at("name") == (serves ? "s" + std::to_string(i - 3) : "p" + std::to_string(i)));
    CHECK(peer.at("state") == "finished");
    CHECK((peer.at("steps") == 0) == serves);
    CHECK(peer.at("accuracy").is_null() == serves);
    CHECK(peer.at("exchanges").get<int>() > 0);
  }
}

}  // namespace

TEST_CASE("processes train with parameter servers", "[figures]") {
  for (const char* const rule : {"parameter-server", "ssp"}) {
    const TemporaryFolder folder;
    const json summary = summary_of(
        run(served("swarm", rule, folder.file("run"), {"--target-accuracy", "0.9", "--pace", "2ms"})));
    CHECK(summary.at("rule") == rule);
    check_run(summary, 2);
    CHECK(summary.at("seconds_to_target").is_number());
    // The launcher's snapshots are deleted.
    for (const auto& file : std::filesystem::directory_iterator(folder.file("run")))
      CHECK(file.path().filename().string().find("snapshot") == std::string::npos);
  }
}

TEST_CASE("processes train with a server per rack and one above them", "[figures]") {
  const TemporaryFolder folder;
  check_run(summary_of(run(served("swarm", "parameter-server", folder.file("run"), {"--racks", "2"}))), 4);
}

TEST_CASE("virtual peers train with parameter servers, reproducibly", "[figures]") {
  for (const char* const rule : some_of({"parameter-server", "ssp"})) {
    const TemporaryFolder folder;
    const json one = summary_of(run(served("simulate", rule, folder.file("one"), {"--threads", "1"})));
    const json two = summary_of(run(served("simulate", rule, folder.file("two"), {"--threads", "2"})));
    check_run(one, 2);
    CHECK(one.at("trace_hash") == two.at("trace_hash"));
    CHECK(one.at("accuracy") == two.at("accuracy"));
  }
}

TEST_CASE("impossible server settings are rejected") {
  const TemporaryFolder folder;
  struct Case {
    Words more;
    std::string sentence;
  };
  for (const auto& [more, sentence] :
       {Case{{"--model", "softmax", "--servers", "3"},
             "gossip.servers: 3 servers share a model in cells of 8160 floats, and softmax has only 1 of "
             "them"},
        {{"--rule", "ssp", "--racks", "2"}, "gossip.racks: the rule ssp has no racks"},
        {{"--rule", "ssp", "--every", "200ms"},
         "gossip.every: the rule ssp is paced by steps (1 step), not by time: its staleness counts steps"},
        {{"--servers", "0"}, "'0' is not a whole number from 1 to 1024"},
        {{"--payload", "top-k"}, "gossip.payload: the rule parameter-server takes f32, bf16 or int8"}}) {
    for (const char* const command : {"simulate", "swarm"}) {
      Words words = {command, "--rule", "parameter-server", "--data", "glyphs", "--out", folder.file("run")};
      if (more.front() == "--rule") words.erase(words.begin() + 1, words.begin() + 3);
      words.insert(words.end(), more.begin(), more.end());
      const Outcome outcome = run(words);
      INFO(command << ": " << outcome.err);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.err.find(sentence) != std::string::npos);
    }
  }
}

}  // namespace starling::cli_tests

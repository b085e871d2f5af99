// --on-end: a command of the user's at the end of a run. And the live pages of simulate and swarm.
#include <csignal>

#include <filesystem>

#include "base/ids.h"
#include "node/front/http_client.h"
#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// Writes the variables of the run's end to `file`.
std::string notice(const std::string& file) {
  return "echo \"$RUN_STATE $RUN_NAME $RUN_COMMAND $RUN_EXIT_CODE\" > " + file;
}

TEST_CASE("--on-end runs a command that is told how the run ended") {
  const TemporaryFolder folder;
  const Words simulate = {"simulate", "--peers", "2", "--model", "softmax", "--name", "quick", "--out"};
  Words words = simulate;
  words.insert(words.end(),
               {folder.file("run"), "--steps", "3", "--on-end", notice(folder.file("finished"))});
  CHECK(run(words).exit_code == 0);
  CHECK(read_whole(folder.file("finished")) == "finished quick simulate 0\n");

  words = simulate;
  words.insert(words.end(),
               {folder.file("long"), "--epochs", "10000", "--on-end", notice(folder.file("stopped"))});
  Program program(words);
  REQUIRE(eventually([&] { return std::filesystem::exists(folder.file("long/metrics.jsonl")); }));
  program.signal(SIGINT);
  CHECK(program.finish().exit_code == 130);
  CHECK(read_whole(folder.file("stopped")) == "stopped quick simulate 130\n");

  // A file is in the way of the results.
  folder.write("taken", "");
  words = simulate;
  words.insert(words.end(),
               {folder.file("taken"), "--steps", "3", "--on-end", notice(folder.file("failed"))});
  CHECK(run(words).exit_code == 2);
  CHECK(read_whole(folder.file("failed")) == "failed quick simulate 2\n");
}

TEST_CASE("a peer that leaves runs its command, and a command that fails is a warning") {
  const TemporaryFolder folder;
  Program peer({"peer", "--listen", "127.0.0.1:0", "--name", "north", "--model", "softmax", "--data",
                "glyphs", "--pace", "5ms", "--on-end", notice(folder.file("left"))});
  REQUIRE(peer.wait_for_error_text("training begins"));
  peer.signal(SIGINT);
  CHECK(peer.finish().exit_code == 0);
  CHECK(read_whole(folder.file("left")) == "left north peer 0\n");

  const Outcome failing = run({"simulate", "--peers", "1", "--model", "softmax", "--steps", "1", "--out",
                               folder.file("run"), "--on-end", "exit 3"});
  CHECK(failing.exit_code == 0);
  CHECK(failing.err.find("--on-end: the command failed with exit code 3") != std::string::npos);
}

// The answer at a page's address; nullopt if it is not 200.
std::optional<std::string> page_says(const std::string& at, const char* path) {
  const auto answer = node::http_request(*Address::parse(at), "GET", path);
  return answer && answer->status == 200 ? std::optional(answer->body) : std::nullopt;
}

TEST_CASE("simulate --http shows the simulated swarm") {
  const TemporaryFolder folder;
  Program program({"simulate", "--peers", "6", "--model", "softmax", "--epochs", "10000", "--slow", "2=4",
                   "--topology", "ring", "--out", folder.file("run"), "--http", "127.0.0.1:0"});
  const std::string url = program.wait_for_error_word("page: ");
  REQUIRE(url.starts_with("http://127.0.0.1:"));
  const std::string at = url.substr(7, url.size() - 8);
  std::optional<std::string> members;
  const auto slow_is_known = [&] {
    members = page_says(at, "/api/v1/members");
    return members && json::parse(*members).at("members").at(2).at("slowdown").is_number();
  };
  REQUIRE(eventually(slow_is_known));
  const json list = json::parse(*members).at("members");
  REQUIRE(list.size() == 6);
  CHECK(list[2].at("slowdown").get<double>() > 3);
  CHECK(list[2].at("condition") == "training");
  CHECK(page_says(at, "/")->find("<!DOCTYPE html>") != std::string::npos);
  const auto says_why = [&] {  // the first speeds are measured over a few steps
    const auto status = page_says(at, "/api/v1/status");
    return status && json::parse(*status).at("situation").get<std::string>().find("p2 is 4.0x slower") !=
                         std::string::npos;
  };
  CHECK(eventually(says_why));
  CHECK(json::parse(*page_says(at, "/api/v1/topology")).at("edges").size() == 6);
  CHECK_FALSE(page_says(at, "/api/v1/events").has_value());
  const Outcome asked = run({"members", "--at", at});
  CHECK(asked.out.find("training") != std::string::npos);
  program.signal(SIGINT);
  CHECK(program.finish().exit_code == 130);
}

TEST_CASE("a page does not change the results of a simulation") {
  const TemporaryFolder folder;
  const auto hash = [&](const char* out, Words more) {
    Words words = {"simulate", "--peers", "4",      "--model", "softmax",
                   "--epochs", "0.5",     "--json", "--out",   folder.file(out)};
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(run(words).out).at("trace_hash").get<std::string>();
  };
  CHECK(hash("with", {"--http", "127.0.0.1:0"}) == hash("without", {}));
}

TEST_CASE("swarm --http serves the page of the first peer") {
  const TemporaryFolder folder;
  const auto swarm = [&](const std::string& http) {
    return Words{"swarm", "--peers", "2",   "--model", "softmax",          "--data", "glyphs", "--epochs",
                 "10000", "--pace",  "5ms", "--out",   folder.file("run"), "--http", http};
  };
  const Outcome refused = run(swarm("127.0.0.1:0"));
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("--http: give the page a port, such as 127.0.0.1:7180") != std::string::npos);

  // A peer of this test finds a port that is free.
  std::string at;
  {
    Program other({"peer", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--model", "softmax", "--data",
                   "glyphs", "--pace", "5ms"});
    at = other.wait_for_error_word("HTTP at ");
    other.signal(SIGINT);
    other.finish();
  }
  Program program(swarm(at));
  CHECK(program.wait_for_error_word("page: ") == "http://" + at + "/");
  const auto both_are_there = [&] {
    const auto members = page_says(at, "/api/v1/members");
    return members && json::parse(*members).at("members").size() == 2;
  };
  CHECK(eventually(both_are_there));
  const json list = json::parse(page_says(at, "/api/v1/members").value_or(R"({"members":[]})"));
  for (const json& member : list.at("members")) CHECK(member.at("http").is_string());
  program.signal(SIGINT);
  CHECK(program.finish().exit_code == 130);
}

}  // namespace
}  // namespace starling::cli_tests

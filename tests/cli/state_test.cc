// The --state folder: how killed peers find their swarm again.
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// A peer that writes its cache to `state` often.
Words state_peer(const std::string& state, Words more) {
  Words words = {"peer", "--state", state, "--cache-interval", "5ms", "--begin-after", "500ms"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words beginner(const std::string& state, Words more = {}, const char* model = "softmax") {
  Words words = state_peer(state, {"--listen", "127.0.0.1:0", "--model", model, "--pace", "5ms"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The addresses in the cache; nothing if it cannot be read.
std::optional<std::set<std::string>> look_at(const std::string& state) {
  const json object = json::parse(read_whole(state + "/peers.json"), nullptr, false);
  if (!object.is_object()) return std::nullopt;
  std::set<std::string> addresses;
  for (const json& member : object.at("members")) addresses.insert(member.at("address").get<std::string>());
  return addresses;
}

std::set<std::string> remembered(const std::string& state) {
  const auto addresses = look_at(state);
  REQUIRE(addresses.has_value());
  return *addresses;
}

// Waits until the cache contains this address; reads it whenever the folder changes. REQUIRES: the folder
// exists.
bool comes_to_remember(const std::string& state, const std::string& address) {
  pollfd changes{inotify_init1(IN_CLOEXEC), POLLIN, 0};
  REQUIRE(inotify_add_watch(changes.fd, state.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) >= 0);
  const auto named = [&] { return look_at(state).value_or(std::set<std::string>()).contains(address); };
  bool found = named();
  while (!found) {
    std::array<char, 4096> told;
    if (poll(&changes, 1, static_cast<int>(std::chrono::milliseconds(kHang).count())) <= 0) break;
    if (read(changes.fd, told.data(), told.size()) <= 0) break;
    found = named();
  }
  close(changes.fd);
  return found;
}

TEST_CASE("a killed peer finds its swarm again, repeatedly") {
  const TemporaryFolder folder;
  Program stays(beginner(folder.file("stays"), {"--name", "stays"}));
  const std::string there = stays.wait_for_error_word(" listens at ");
  REQUIRE(stays.wait_for_error_text("training begins"));
  Program first(
      state_peer(folder.file("dies"), {"--join", there, "--listen", "127.0.0.1:0", "--name", "dies"}));
  const std::string here = first.wait_for_error_word(" listens at ");
  REQUIRE(first.wait_for_error_text("training begins"));
  REQUIRE(comes_to_remember(folder.file("dies"), there));
  REQUIRE(comes_to_remember(folder.file("stays"), here));
  kill_at_once(first);
  for (int life = 0; life < 5; ++life) {
    CHECK(remembered(folder.file("dies")) == std::set<std::string>{there});
    Program again(state_peer(folder.file("dies"), {"--listen", here, "--name", "dies"}));
    REQUIRE(again.wait_for_error_text("1 addresses"));
    REQUIRE(again.wait_for_error_text(life % 2 == 0 ? "the swarm trains" : "training begins"));
    kill_at_once(again);
  }
}

TEST_CASE("a peer that is restarted with --join returns through another member if that one is gone") {
  const TemporaryFolder folder;
  Program founder(beginner(folder.file("founder"), {"--name", "founder"}));
  const std::string there = founder.wait_for_error_word(" listens at ");
  REQUIRE(founder.wait_for_error_text("training begins"));
  Program other(state_peer(folder.file("other"), {"--join", there, "--listen", "127.0.0.1:0"}));
  const std::string elsewhere = other.wait_for_error_word(" listens at ");
  REQUIRE(other.wait_for_error_text("training begins"));
  const Words words = state_peer(folder.file("dies"), {"--join", there, "--listen", "127.0.0.1:0"});
  Program dies(words);
  REQUIRE(dies.wait_for_error_text("training begins"));
  REQUIRE(comes_to_remember(folder.file("dies"), elsewhere));
  kill_at_once(founder);
  kill_at_once(dies);
  Program again(words);
  CHECK(again.wait_for_error_text("the swarm trains"));
}

TEST_CASE("a peer that ends stores the live members, not those that left") {
  const TemporaryFolder folder;
  Program stays(beginner(folder.file("stays")));
  const std::string there = stays.wait_for_error_word(" listens at ");
  REQUIRE(stays.wait_for_error_text("training begins"));
  Program leaves({"peer", "--join", there, "--listen", "127.0.0.1:0"});
  REQUIRE(leaves.wait_for_error_text("training begins"));
  REQUIRE(stays.wait_for_error_text("has joined"));
  leaves.signal(SIGTERM);
  CHECK(leaves.finish().exit_code == 0);
  REQUIRE(stays.wait_for_error_text("has left"));
  stays.signal(SIGTERM);
  CHECK(stays.finish().exit_code == 0);
  CHECK(remembered(folder.file("stays")).empty());

  // No member is left, so the same command begins a new run.
  Program again(beginner(folder.file("stays")));
  CHECK(again.wait_for_error_text("training begins"));
  CHECK(again.error_text().find("remembers") == std::string::npos);
}

TEST_CASE("after a blackout the first peer restarts the run, and the next one joins it", "[figures]") {
  const TemporaryFolder folder;
  Program first(beginner(folder.file("first"), {"--http", "127.0.0.1:0"}, "mlp"));
  const std::string page = first.wait_for_error_word("HTTP at ");
  const std::string here = first.wait_for_error_word(" listens at ");
  Program second(state_peer(folder.file("second"), {"--listen", "127.0.0.1:0", "--join", here}));
  const std::string there = second.wait_for_error_word(" listens at ");
  REQUIRE(comes_to_remember(folder.file("first"), there));
  REQUIRE(comes_to_remember(folder.file("second"), here));
  REQUIRE(run({"topology", "set", "ring", "--at", page}).exit_code == 0);
  REQUIRE(second.wait_for_error_text("the swarm's topology is ring from now on"));
  REQUIRE(eventually(
      [&] { return read_whole(folder.file("second/peers.json")).find("ring") != std::string::npos; }));
  kill_at_once(first);
  kill_at_once(second);

  Program back(state_peer(folder.file("second"), {"--listen", there, "--http", "127.0.0.1:0", "--pace", "5ms",
                                                  "--out", folder.file("out"), "--name", "back"}));
  const std::string asked_at = back.wait_for_error_word("HTTP at ");
  REQUIRE(back.wait_for_error_text("the swarm trains mlp on glyphs"));
  REQUIRE(back.wait_for_error_text("training begins"));
  CHECK(json::parse(run({"status", "--at", asked_at, "--json"}).out).at("topology") == "ring");
  // The member that has not returned stays in the cache.
  CHECK(remembered(folder.file("second")) == std::set<std::string>{here});
  Program next(state_peer(folder.file("first"), {"--listen", here, "--pace", "10ms"}));
  REQUIRE(next.wait_for_error_text("training begins"));
  REQUIRE(back.wait_for_error_text("has joined"));
  CHECK(eventually([&] {
    const Outcome status = run({"status", "--at", asked_at, "--json"});
    return status.exit_code == 0 && json::parse(status.out).at("steps").get<std::uint64_t>() >= 200;
  }));
  back.signal(SIGTERM);
  CHECK(back.finish().exit_code == 0);
  // 200 steps reach a much higher accuracy, unless the hidden layers began with zeros.
  const Outcome judged =
      run({"evaluate", "--checkpoint", folder.file("out/back.safetensors"), "--data", "glyphs", "--json"});
  INFO(judged.err);
  REQUIRE(judged.exit_code == 0);
  CHECK(json::parse(judged.out).at("accuracy").get<double>() > 0.3);
}

TEST_CASE("two running peers cannot use the same --state folder") {
  const TemporaryFolder folder;
  Program first(beginner(folder.file("state")));
  REQUIRE(first.wait_for_error_text("listens at"));
  const Outcome second = run(beginner(folder.file("state")));
  CHECK(second.exit_code == 2);
  CHECK(is_one_line(second.err));
  CHECK(second.err.find("another running peer uses the folder " + folder.file("state")) != std::string::npos);
  kill_at_once(first);
  Program third(beginner(folder.file("state")));  // the lock ends with its peer
  CHECK(third.wait_for_error_text("listens at"));
}

TEST_CASE("a damaged cache gives a warning and is moved aside") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("state"));
  folder.write("state/peers.json", "{\"format\": 1, \"swa");
  Program program(beginner(folder.file("state")));
  CHECK(program.wait_for_error_text("peers.json cannot be used"));
  CHECK(program.wait_for_error_text("training begins"));
  CHECK(read_whole(folder.file("state/peers.json.damaged")) == "{\"format\": 1, \"swa");
}

TEST_CASE("the state of another swarm or of a later version ends the peer with a sentence, and stays") {
  const TemporaryFolder folder;
  Program first(beginner(folder.file("state"), {"--swarm", "blue"}));
  REQUIRE(first.wait_for_error_text("training begins"));
  first.signal(SIGTERM);
  REQUIRE(first.finish().exit_code == 0);
  const std::string path = folder.file("state/peers.json");
  std::string text = read_whole(path);
  const auto ends_with = [&](const std::string& swarm, const std::string& sentence) {
    const Outcome outcome = run(beginner(folder.file("state"), {"--swarm", swarm}));
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    INFO(outcome.err);
    CHECK(outcome.err.find("--state: " + path + sentence) != std::string::npos);
    CHECK(read_whole(path) == text);
    CHECK_FALSE(std::filesystem::exists(path + ".damaged"));
  };
  ends_with("green", " is of the swarm 'blue', not 'green': give --swarm blue, or name another folder");
  text.replace(text.find("\"format\": 1"), 11, "\"format\": 7");
  folder.write("state/peers.json", text);
  ends_with("blue", " has format 7, and Starling ");
}

TEST_CASE("a model that differs from the stored run is rejected") {
  const TemporaryFolder folder;
  Program stays(beginner(folder.file("stays")));
  const std::string there = stays.wait_for_error_word(" listens at ");
  Program other(state_peer(folder.file("other"), {"--join", there, "--listen", "127.0.0.1:0"}));
  REQUIRE(other.wait_for_error_text("training begins"));
  REQUIRE(comes_to_remember(folder.file("other"), there));
  kill_at_once(other);
  const Outcome again = run(state_peer(folder.file("other"), {"--listen", "127.0.0.1:0", "--model", "mlp"}));
  CHECK(again.exit_code == 2);
  CHECK(again.err.find("softmax") != std::string::npos);
}

TEST_CASE("settings that differ from a stored run give a warning") {
  const TemporaryFolder folder;
  Program stays(beginner(folder.file("stays"), {"--momentum", "0.5"}));
  const std::string there = stays.wait_for_error_word(" listens at ");
  Program other(state_peer(folder.file("other"), {"--join", there, "--listen", "127.0.0.1:0"}));
  REQUIRE(other.wait_for_error_text("training begins"));
  REQUIRE(comes_to_remember(folder.file("other"), there));
  kill_at_once(other);
  const Words same = {"--listen", "127.0.0.1:0", "--momentum", "0.5", "--pace", "7ms", "--model", "softmax"};
  Program silent(state_peer(folder.file("other"), same));
  REQUIRE(silent.wait_for_error_text("training begins"));
  CHECK(silent.error_text().find("not heard") == std::string::npos);
  kill_at_once(silent);
  Words otherwise = same;
  otherwise.insert(otherwise.end(), {"--rule", "choco", "--set", "training.learning_rate=0.25"});
  Program warned(state_peer(folder.file("other"), otherwise));
  REQUIRE(warned.wait_for_error_text("training begins"));
  const std::string said = warned.error_text();
  CHECK(said.find(
            "ignored: training.learning_rate = 0.25 (it is 0.05), gossip.rule = choco (it is pairwise);") !=
        std::string::npos);
  CHECK(said.find(folder.file("other")) != std::string::npos);
}

TEST_CASE("a --state folder that cannot be created is rejected") {
  const TemporaryFolder folder;
  folder.write("file", "");
  for (const std::string& state : {folder.file("file/state"), std::string()}) {
    const Outcome outcome = run(beginner(state));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find("--state") != std::string::npos);
  }
}

}  // namespace
}  // namespace starling::cli_tests

// What a swarm shows of a peer that is interrupted, killed, stopped, paused or duplicated at a random moment.
#include <csignal>

#include <algorithm>
#include <memory>
#include <set>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/cli/program.h"
#include "tests/seeds.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

enum class Way { interrupt, terminate, kill, stop, pause, leave, duplicate };
constexpr std::uint64_t kWays = 7;
constexpr std::uint64_t kAtOnce = 10;

Words peer_words(const std::string& name, Words more) {
  Words words = {"peer",   "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--name", name,
                 "--pace", "20ms",     "--workers",   "1"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A peer to which something happens after some of its steps.
struct Victim {
  Victim(std::uint64_t seed, const std::string& join)
      : way(static_cast<Way>(seed % kWays)),
        name("v" + std::to_string(seed)),
        steps(1 + Random(seed).below(30)),
        join_at(join),
        program(peer_words(name, {"--join", join, "--data", "glyphs"})),
        http(program.wait_for_error_word("HTTP at ")) {}

  void act() {
    acted = true;
    switch (way) {
      case Way::interrupt:
        return program.signal(SIGINT);
      case Way::terminate:
        return program.signal(SIGTERM);
      case Way::kill:
        return program.signal(SIGKILL);
      case Way::stop:
        return program.signal(SIGSTOP);
      case Way::pause:
        CHECK(run({"pause", "--at", http}).exit_code == 0);
        return;
      case Way::leave:
        CHECK(run({"leave", "--at", http}).exit_code == 0);
        return;
      case Way::duplicate:
        CHECK(run(peer_words(name, {"--join", join_at, "--data", "glyphs"})).exit_code == 2);
        return;
    }
  }
  // How the swarm ends up showing it, and what it shows on the way besides "training" until it notices.
  std::string expected() const {
    switch (way) {
      case Way::interrupt:
      case Way::terminate:
      case Way::leave:
        return "left";
      case Way::kill:
      case Way::stop:
        return "failed";
      case Way::pause:
        return "paused";
      case Way::duplicate:
        return "training";
    }
    return "";
  }

  Way way;
  std::string name;
  std::uint64_t steps;
  std::string join_at;
  Program program;
  std::string http;
  bool acted = false, noticed = false, over = false;
};

// The conditions of the members with this name.
std::multiset<std::string> conditions(const json& members, const std::string& name) {
  std::multiset<std::string> found;
  for (const json& member : members)
    if (member.at("name") == name) found.insert(member.at("condition").get<std::string>());
  return found;
}

void look_at(Victim& victim, const json& members) {
  CAPTURE(victim.name, static_cast<int>(victim.way));
  const auto shown = conditions(members, victim.name);
  CHECK(shown.count("finished") == 0);
  if (!victim.acted) {
    const bool ready = std::any_of(members.begin(), members.end(), [&](const json& member) {
      return member.at("name") == victim.name && member.at("steps").get<std::uint64_t>() >= victim.steps;
    });
    if (ready) victim.act();
    return;
  }
  if (victim.way == Way::duplicate) {
    CHECK(shown.count("training") <= 2);  // until the second one has left
    victim.over = shown == std::multiset<std::string>{"left", "training"};
    return;
  }
  REQUIRE(shown.size() == 1);
  victim.noticed |= shown.count("training") == 0;
  if (victim.noticed) CHECK(shown.count("training") == 0);  // never again
  victim.over = *shown.begin() == victim.expected();
}

TEST_CASE("a peer that is interrupted, killed, paused or duplicated is never shown as finished or training") {
  Program observer(peer_words("observer", {"--model", "softmax", "--data", "glyphs"}));
  const std::string http = observer.wait_for_error_word("HTTP at ");
  const std::string join = observer.wait_for_error_word(" listens at ");
  REQUIRE(observer.wait_for_error_text("training begins"));
  const auto members = [&] {
    return json::parse(run({"members", "--at", http, "--json"}).out).at("members");
  };
  const std::uint64_t all = seeds(50, kWays);
  for (std::uint64_t first = 0; first < all; first += kAtOnce) {
    std::vector<std::unique_ptr<Victim>> victims;
    for (std::uint64_t seed = first; seed < std::min(first + kAtOnce, all); ++seed)
      victims.push_back(std::make_unique<Victim>(seed, join));
    const auto all_are_over = [&] {
      const json now = members();
      for (auto& victim : victims) look_at(*victim, now);
      return std::all_of(victims.begin(), victims.end(), [](const auto& victim) { return victim->over; });
    };
    CHECK(eventually(all_are_over));
    for (auto& victim : victims)
      if (victim->way != Way::duplicate) CHECK(victim->over);
    const std::string table = run({"members", "--at", http}).out;
    for (auto& victim : victims) {
      const std::size_t row = table.find("\n" + victim->name + " ");
      REQUIRE(row != std::string::npos);
      const std::string line = table.substr(row + 1, table.find('\n', row + 1) - row - 1);
      CAPTURE(line);
      CHECK(line.find(" " + victim->expected() + " ") != std::string::npos);
      CHECK(table.find("\n" + victim->name + " ", row + 1) == std::string::npos);  // one row each
    }
  }
}

}  // namespace
}  // namespace starling::cli_tests

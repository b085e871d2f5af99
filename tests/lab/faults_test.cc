#include "lab/world/faults.h"

#include <set>

#include "tests/catch.h"
#include "training/runs/experiment/experiment.h"

namespace starling::lab {
namespace {

using namespace std::chrono_literals;

constexpr FaultSetting kSetting{8, Instant{4s}, Instant{40s}};

std::vector<std::string> sentences(const FaultDraw& draw) {
  std::vector<std::string> names, all;
  for (std::uint32_t i = 0; i < kSetting.machines; ++i) names.push_back("p" + std::to_string(i));
  for (const Incident& incident : draw.incidents) all.push_back(sentence(incident, names));
  return all;
}

}  // namespace

TEST_CASE("the same seed draws the same faults, another seed others") {
  const Faults faults = *Faults::named("all");
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const FaultDraw first = draw(seed, faults, kSetting);
    REQUIRE(sentences(first) == sentences(draw(seed, faults, kSetting)));
    REQUIRE(first.late == draw(seed, faults, kSetting).late);
    REQUIRE(sentences(first) != sentences(draw(seed + 1000, faults, kSetting)));
  }
}

TEST_CASE("in each seed one member lies, and all kinds of lies are drawn") {
  std::set<LieKind> kinds;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::set<std::uint32_t> liars;
    for (const Incident& incident : draw(seed, *Faults::named("lies"), kSetting).incidents) {
      const auto* const lies = std::get_if<Lies>(&incident);
      if (lies == nullptr) continue;
      liars.insert(lies->machine);
      kinds.insert(lies->kind);
      REQUIRE(lies->from < lies->to);
      REQUIRE(lies->to <= kSetting.to);
      REQUIRE(lies->every > 0s);
    }
    REQUIRE(liars.size() <= 1);
  }
  REQUIRE(kinds.size() == kLieKinds);
  std::set<std::string> names;
  for (const LieKind kind : kinds) names.insert(name(kind));
  REQUIRE(names.size() == kLieKinds);
}

TEST_CASE("faults begin and end within their time and are in order") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const FaultDraw drawn = draw(seed, *Faults::named("all"), kSetting);
    Instant last{};
    for (const Incident& incident : drawn.incidents) {
      REQUIRE(beginning(incident) >= last);
      last = beginning(incident);
      std::visit(
          [](const auto& it) {
            if constexpr (requires { it.to; }) {
              REQUIRE(it.from >= kSetting.from);
              REQUIRE(it.from <= it.to);
              REQUIRE(it.to <= kSetting.to);
            }
          },
          incident);
    }
    REQUIRE(last <= kSetting.to);
  }
}

TEST_CASE("at least two machines run all the time") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const FaultDraw drawn = draw(seed, *Faults::named("churn"), kSetting);
    std::set<std::uint32_t> leaving;
    for (const Incident& incident : drawn.incidents) {
      if (const auto* crash = std::get_if<Crash>(&incident)) leaving.insert(crash->machine);
      if (const auto* leave = std::get_if<Departure>(&incident)) leaving.insert(leave->machine);
    }
    for (std::uint32_t i = 0; i < kSetting.machines; ++i) {
      if (drawn.late[i]) leaving.insert(i);
    }
    REQUIRE(leaving.size() <= kSetting.machines - 2);
  }
}

TEST_CASE("the simulator has every poison of an experiment file") {
  for (const std::string& poison : training::poisons()) {
    INFO(poison);
    const auto kind = poison_named(poison);
    REQUIRE(kind.has_value());
    REQUIRE(name(*kind) == poison);
  }
}

TEST_CASE("every name draws its faults, and \"none\" draws nothing") {
  for (const std::string& name : Faults::names()) {
    REQUIRE(Faults::named(name).has_value());
    std::size_t drawn = 0;
    for (std::uint64_t seed = 0; seed < 10; ++seed)
      drawn += draw(seed, *Faults::named(name), kSetting).incidents.size();
    CAPTURE(name);
    REQUIRE((drawn == 0) == (name == "none"));
  }
  REQUIRE_FALSE(Faults::named("gremlins").has_value());
}

TEST_CASE("every incident has a sentence") {
  const std::vector<std::string> names{"p0", "p1", "p2", "p3"};
  const auto said = [&](const Incident& incident) { return sentence(incident, names); };
  const Instant from{12'304ms}, to{15'001ms};
  CHECK(said(Crash{3, from, true, to, true}) ==
        "At 12.304 s p3 loses its power; at 15.001 s it is back as a new instance, with its cache of "
        "addresses.");
  CHECK(said(Crash{3, from}) == "At 12.304 s p3 crashes.");
  CHECK(said(Departure{1, from}) == "At 12.304 s p1 is asked to leave.");
  CHECK(said(Pause{1, from, to}) == "From 12.304 s to 15.001 s nothing happens on p1.");
  CHECK(said(Slow{1, 10, from, kNever}) == "From 12.304 s to the end steps of p1 take 10 times as long.");
  CHECK(said(Cut{1, 2, from, to, true}) ==
        "From 12.304 s to 15.001 s nothing travels from p1 to p2, nor back.");
  CHECK(said(Partition{{0, 2}, from, to}) ==
        "From 12.304 s to 15.001 s nothing travels into or out of {p0, p2}.");
  CHECK(said(HalfOpen{1, 2, from}) ==
        "At 12.304 s the connections between p1 and p2 break, and only p1 is notified.");
}

}  // namespace starling::lab

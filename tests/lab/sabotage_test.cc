// Bugs that are planted between the core and the world must be found.
#include "lab/world/sabotage.h"

#include <optional>
#include <set>
#include <string>

#include "lab/hunt/hunt.h"
#include "tests/catch.h"

namespace starling::lab {
namespace {

struct PlantedFind {
  std::uint64_t seed;
  Violation violation;
};

// Hunts a planted bug: first in the seed that is known to show it, then in others.
std::optional<PlantedFind> find_planted(const HuntOptions& options, PlantedBug bug, std::uint64_t known,
                                        std::uint64_t others) {
  for (std::uint64_t i = 0; i <= others; ++i) {
    const std::uint64_t seed = i == 0 ? known : i - 1;
    if (const auto violation = hunt_seed(options, seed, nullptr, bug).violation)
      return PlantedFind{seed, *violation};
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a planted bug is found within a thousand seeds") {
  struct Prey {
    PlantedBug bug;
    std::uint64_t seed;
    int statement;
  };
  for (const Prey prey : {Prey{PlantedBug::lost_mass, 2, 2}, Prey{PlantedBug::resurrected_peer, 0, 8},
                          Prey{PlantedBug::unbounded_queue, 0, 9}, Prey{PlantedBug::idle_deadline, 0, 9},
                          Prey{PlantedBug::forgotten_refutation, 0, 8}}) {
    const auto found = find_planted({}, prey.bug, prey.seed, 1000);
    CAPTURE(name(prey.bug));
    REQUIRE(found.has_value());
    CAPTURE(found->seed, found->violation.text);
    CHECK(found->violation.statement == prey.statement);
  }
}

TEST_CASE("each guard against lies is necessary: without it, lies are found within 200 seeds") {
  struct Prey {
    PlantedBug bug;
    std::uint64_t seed;
  };
  for (const Prey prey : {Prey{PlantedBug::no_signatures, 0}, Prey{PlantedBug::no_bound_of_samples, 0},
                          Prey{PlantedBug::no_introductions, 0}, Prey{PlantedBug::no_own_probe, 1}}) {
    HuntOptions options;
    options.faults = "lies";
    const auto found = find_planted(options, prey.bug, prey.seed, 200);
    CAPTURE(name(prey.bug));
    REQUIRE(found.has_value());
    CAPTURE(found->seed, found->violation.text);
    CHECK(found->violation.statement == 8);
    CHECK_FALSE(hunt_seed(options, found->seed).violation);  // with all guards nobody believes the same lies
  }
}

TEST_CASE("a planted bug of reach is found within 200 seeds") {
  struct Prey {
    PlantedBug bug;
    const char* faults;
    std::uint64_t seed;
    int statement;
  };
  for (const Prey prey : {Prey{PlantedBug::calls_not_passed_on, "routers", 76, 11},
                          Prey{PlantedBug::homes_never_replaced, "routers", 0, 8},
                          Prey{PlantedBug::moved_keeps_old_record, "moves", 0, 8}}) {
    HuntOptions options;
    options.faults = prey.faults;
    const auto found = find_planted(options, prey.bug, prey.seed, 200);
    CAPTURE(name(prey.bug));
    REQUIRE(found.has_value());
    CAPTURE(found->seed, found->violation.text);
    CHECK(found->violation.statement == prey.statement);
  }
}

TEST_CASE("a driver that ends no answer, or the wrong one, is found within 200 seeds") {
  for (const PlantedBug bug : {PlantedBug::answers_pile_up, PlantedBug::wrong_answer_ends}) {
    HuntOptions options;
    options.faults = "offers";
    std::optional<Violation> found;
    std::uint64_t seed = 0;
    for (; seed < 200 && !found; ++seed) found = hunt_seed(options, seed, nullptr, bug).violation;
    CAPTURE(name(bug), seed);
    REQUIRE(found.has_value());
    CAPTURE(found->text);
    CHECK(found->statement == 13);
    CHECK_FALSE(hunt_seed(options, seed - 1).violation);
  }
}

TEST_CASE("a silent member that stops a round without a limit is found within 200 seeds") {
  HuntOptions options;
  options.faults = "silence";
  options.rule = Rule::d_psgd;
  const auto found = find_planted(options, PlantedBug::endless_waits, 0, 200);
  REQUIRE(found.has_value());
  CAPTURE(found->seed, found->violation.text);
  CHECK(found->violation.statement == 14);
  CHECK_FALSE(hunt_seed(options, found->seed).violation);
}

TEST_CASE("a peer that does not wait for those that are started with it is found within 50 seeds") {
  for (const char* const faults : {"none", "crash"}) {
    HuntOptions options;
    options.faults = faults;
    const auto found = find_planted(options, PlantedBug::begins_alone, 0, 50);
    REQUIRE(found.has_value());
    CAPTURE(found->seed, found->violation.text);
    CHECK(found->violation.statement == 15);
    CHECK_FALSE(hunt_seed(options, found->seed).violation);
  }
}

TEST_CASE("every planted bug has a name of its own") {
  std::set<std::string> names;
  for (auto bug = PlantedBug::lost_mass; bug <= PlantedBug::begins_alone;
       bug = static_cast<PlantedBug>(static_cast<int>(bug) + 1)) {
    CHECK(plant(bug, 1) != nullptr);
    CHECK(names.insert(name(bug)).second);
  }
}

}  // namespace starling::lab

// Bugs that are planted between the core and the world must be found.
#include "lab/world/sabotage.h"

#include <set>
#include <string>

#include "lab/hunt/hunt.h"
#include "tests/catch.h"

namespace starling::lab {

TEST_CASE("a planted bug is found within a thousand seeds") {
  struct Prey {
    PlantedBug bug;
    int statement;
  };
  for (const Prey prey : {Prey{PlantedBug::lost_mass, 2}, Prey{PlantedBug::resurrected_peer, 8},
                          Prey{PlantedBug::unbounded_queue, 9}, Prey{PlantedBug::idle_deadline, 9},
                          Prey{PlantedBug::forgotten_refutation, 8}}) {
    const HuntOptions options;
    std::optional<Violation> found;
    std::uint64_t seed = 0;
    for (; seed < 1000 && !found; ++seed) found = hunt_seed(options, seed, nullptr, prey.bug).violation;
    CAPTURE(name(prey.bug), seed);
    REQUIRE(found.has_value());
    CAPTURE(found->text);
    CHECK(found->statement == prey.statement);
  }
}

TEST_CASE("each guard against lies is necessary: without it, lies are found within 200 seeds") {
  for (const PlantedBug bug : {PlantedBug::no_signatures, PlantedBug::no_bound_of_samples,
                               PlantedBug::no_introductions, PlantedBug::no_own_probe}) {
    HuntOptions options;
    options.faults = "lies";
    std::optional<Violation> found;
    std::uint64_t seed = 0;
    for (; seed < 200 && !found; ++seed) found = hunt_seed(options, seed, nullptr, bug).violation;
    CAPTURE(name(bug), seed);
    REQUIRE(found.has_value());
    CAPTURE(found->text);
    CHECK(found->statement == 8);
    CHECK_FALSE(hunt_seed(options, seed - 1).violation);  // with all guards nobody believes the same lies
  }
}

TEST_CASE("a planted bug of reach is found within 200 seeds") {
  struct Prey {
    PlantedBug bug;
    const char* faults;
    int statement;
  };
  for (const Prey prey : {Prey{PlantedBug::calls_not_passed_on, "routers", 11},
                          Prey{PlantedBug::homes_never_replaced, "routers", 8},
                          Prey{PlantedBug::moved_keeps_old_record, "moves", 8}}) {
    HuntOptions options;
    options.faults = prey.faults;
    std::optional<Violation> found;
    std::uint64_t seed = 0;
    for (; seed < 200 && !found; ++seed) found = hunt_seed(options, seed, nullptr, prey.bug).violation;
    CAPTURE(name(prey.bug), seed);
    REQUIRE(found.has_value());
    CAPTURE(found->text);
    CHECK(found->statement == prey.statement);
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

TEST_CASE("every planted bug has a name of its own") {
  std::set<std::string> names;
  for (auto bug = PlantedBug::lost_mass; bug <= PlantedBug::wrong_answer_ends;
       bug = static_cast<PlantedBug>(static_cast<int>(bug) + 1)) {
    CHECK(plant(bug, 1) != nullptr);
    CHECK(names.insert(name(bug)).second);
  }
}

}  // namespace starling::lab

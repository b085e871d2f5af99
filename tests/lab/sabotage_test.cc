// Bugs that are planted between the core and the world must be found.
#include "lab/world/sabotage.h"

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

}  // namespace starling::lab

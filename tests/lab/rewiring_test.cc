// Changes of the topology while the swarm runs, and partners chosen by the speed of links.
#include <set>

#include "tests/catch.h"
#include "tests/lab/world_story.h"
#include "tests/seeds.h"

namespace starling::lab {

TEST_CASE("all peers follow a topology set at one of them within a second, and no exchange is lost") {
  for (const std::uint64_t seed : FreshSeeds(20, 4)) {
    INFO(replay_of(seed));
    Pace pace;
    pace.kind = Pace::Kind::always;
    Scene scene = scene_of(seed, 12, rules_of("complete", pace, {{}, {}, 20s}), 50ms);
    scene.options.network.latency = 5ms;
    scene.options.network.latency_jitter = 2ms;
    static const char* const kSettings[] = {"ring", "exponential", "uniform", "ring"};
    for (std::uint32_t k = 0; k < 4; ++k)
      scene.options.incidents.push_back(TopologyChange{static_cast<std::uint32_t>((seed + 5 * k) % 12),
                                                       Instant{5s + k * 2s}, kSettings[k]});
    Watched watched(scene);
    for (std::uint32_t k = 0; k < 4; ++k) {
      watched.run(Instant{6s + k * 2s});
      for (std::uint32_t i = 0; i < 12; ++i) {
        CAPTURE(seed, k, i);
        REQUIRE(watched.world.machine(i).topology->name() == kSettings[k]);
      }
    }
    watched.run();
    const auto exchanges = watched.exchanges();
    REQUIRE(exchanges.completed > 1000);
    REQUIRE(exchanges.aborted == 0);
    REQUIRE(exchanges.rejected == 0);
    REQUIRE(watched.half_applied_chunks() == 0);
    REQUIRE(std::abs(watched.sum() - watched.expected_sum()) < 1e-3);
  }
}

TEST_CASE("a peer that joins after the topology was changed follows the new one") {
  Pace pace;
  Scene scene = scene_of(3, 4, rules_of("complete", pace, {{}, {}, 10s}), 50ms);
  scene.options.machines[3].start = Instant{5s};
  scene.options.incidents.push_back(TopologyChange{1, Instant{3s}, "ring"});
  Watched watched(scene);
  watched.run(Instant{7s});
  REQUIRE(watched.world.machine(3).has_parameters);
  REQUIRE(watched.world.machine(3).topology->name() == "ring");
}

namespace {

struct Outcome {
  std::uint64_t by_quick = 0,
                by_thin = 0;  // begun by peers with quick links, and by the four with thin links
  double disagreement = 0;
};

// Sixteen peers on the complete graph that always exchange; the links of four of them are thin.
Outcome exchange_beside_thin_links(Partners partners, std::uint64_t seed) {
  Pace pace;
  pace.kind = Pace::Kind::always;
  gossip::RunRules rules = rules_of("complete", pace, {{}, {}, 60s});
  rules.partners = partners;
  Scene scene = scene_of(seed, 16, rules, 100ms);
  scene.options.network.latency = 10ms;
  scene.options.network.bandwidth = 1e6;
  for (std::uint32_t a = 0; a < 16; ++a)
    for (std::uint32_t b = a + 1; b < 16; ++b)
      if (a < 4 || b < 4) scene.options.incidents.push_back(Clog{a, b, Instant{4s}, Instant{60s}, 200});
  scene.adding_steps = 20;
  Watched watched(scene);
  watched.run(Instant{20s});  // until every peer has all members
  Outcome outcome;
  const auto count = [&](std::uint32_t i) { return watched.world.machine(i).exchanges.completed; };
  for (std::uint32_t i = 0; i < 16; ++i) (i < 4 ? outcome.by_thin : outcome.by_quick) -= count(i);
  watched.run(Instant{50s});
  for (std::uint32_t i = 0; i < 16; ++i) (i < 4 ? outcome.by_thin : outcome.by_quick) += count(i);
  outcome.disagreement = watched.spread().disagreement;
  return outcome;
}

}  // namespace

TEST_CASE("aware partners exchange more if links differ, and peers with thin links still take part",
          "[figures]") {
  Outcome uniform, aware;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto add = [](Outcome& sum, const Outcome& one) {
      sum.by_quick += one.by_quick;
      sum.by_thin += one.by_thin;
      sum.disagreement += one.disagreement;
    };
    add(uniform, exchange_beside_thin_links(Partners::uniform, seed));
    add(aware, exchange_beside_thin_links(Partners::aware, seed));
  }
  CAPTURE(uniform.by_quick, aware.by_quick, uniform.by_thin, aware.by_thin, uniform.disagreement,
          aware.disagreement);
  REQUIRE(static_cast<double>(aware.by_quick) > 1.5 * static_cast<double>(uniform.by_quick));
  REQUIRE(aware.by_thin > 0);
  // Without further steps all replicas become equal, including those with thin links.
  REQUIRE(aware.disagreement < 1e-3);
}

}  // namespace starling::lab

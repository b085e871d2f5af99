// Invariants for arbitrary overlaps of exchanges (ALGORITHMS «Overlap»): the sum of parameters is conserved,
// the energy never rises at rate 0, and the replicas converge. Each of many seeds is a separate world.

#include <bit>

#include "tests/catch.h"
#include "tests/lab/world_story.h"
#include "tests/seeds.h"

namespace starling::lab {

namespace {

constexpr std::uint64_t kSeeds = 1000;

// A mix rounds each float by at most half a unit in the last place, in either direction. The bound on this
// random walk is eight standard deviations plus the rounding of the increments.
double rounding_of(const Watched& watched) {
  const auto machines = static_cast<double>(watched.world.machines());
  const auto floats = static_cast<double>(watched.world.machine(0).arena.size());
  const double roundings = floats * (2 * static_cast<double>(watched.exchanges().begun) +
                                     static_cast<double>(watched.increments()) + machines);
  return 8 * std::ldexp(std::max(1.0, watched.largest()), -23) * std::sqrt(roundings);
}

}  // namespace

TEST_CASE("overlapping exchanges conserve the sum of all parameters") {
  std::uint64_t exchanges = 0;
  const FreshSeeds all(kSeeds);
  for (const std::uint64_t seed : all) {
    Scene scene = overlapping_scene(seed, 50);
    scene.adding_steps = 1000;  // until the end
    Watched watched(scene);
    watched.run();
    INFO(replay_of(seed));
    REQUIRE(watched.over());
    REQUIRE(watched.world.quiet());
    REQUIRE(watched.all_have_parameters());
    const auto counts = watched.exchanges();
    REQUIRE(counts.aborted == 0);
    REQUIRE(counts.begun == counts.completed + counts.rejected);
    REQUIRE(counts.answered == counts.completed);
    REQUIRE(watched.half_applied_chunks() == 0);
    REQUIRE(watched.increments() >= 50 * watched.world.machines());
    REQUIRE(std::abs(watched.sum() - watched.expected_sum()) <= rounding_of(watched));
    for (std::uint32_t i = 0; i < watched.world.machines(); ++i)
      REQUIRE(watched.world.machine(i).state == MachineState::finished);
    exchanges += counts.completed;
  }
  REQUIRE(exchanges > 50 * all.count());
}

TEST_CASE("at rate 0 no event raises the energy, and the replicas converge", "[figures]") {
  std::uint64_t rises_of_disagreement = 0;
  double left = 0;
  const FreshSeeds all(kSeeds);
  for (const std::uint64_t seed : all) {
    Scene scene = overlapping_scene(seed, 40);
    scene.adding_steps = 3;
    Watched watched(scene);
    const std::uint64_t increments = scene.adding_steps * watched.world.machines();
    while (!watched.over() && watched.increments() < increments) REQUIRE(watched.run_one());
    INFO(replay_of(seed));
    REQUIRE(watched.all_have_parameters());
    double energy = watched.world.energy();
    auto spread = watched.spread();
    const double start = energy;
    REQUIRE(start > 0);
    while (!watched.over()) {
      REQUIRE(watched.run_one());
      const double next = watched.world.energy();
      const double norm = std::sqrt(spread.square);
      if (next > energy + std::ldexp(norm, -22) * std::sqrt(energy) + std::ldexp(spread.square, -44)) {
        CAPTURE(energy, next, norm, watched.world.now().since_start.count());
        REQUIRE(next <= energy);
      }
      if (next != energy) {
        const auto now = watched.spread();
        if (now.disagreement > 1.001 * spread.disagreement) ++rises_of_disagreement;
        spread = now;
        if (watched.world.quiet()) REQUIRE(next == Approx(now.disagreement).epsilon(1e-9).margin(1e-12));
      }
      energy = next;
    }
    REQUIRE(watched.world.quiet());
    REQUIRE(watched.spread().disagreement == Approx(energy).epsilon(1e-9).margin(1e-12));
    REQUIRE(energy < 0.5 * start);
    REQUIRE(std::abs(watched.sum() - watched.expected_sum()) <= rounding_of(watched));
    left += energy / start;
  }
  REQUIRE(left < 0.01 * static_cast<double>(all.count()));
  // The worlds have enough overlap: it makes the plain disagreement rise at single events.
  REQUIRE(rises_of_disagreement > all.count());
}

TEST_CASE("the same seed gives the same run to the last bit; another seed gives another run") {
  for (const std::uint64_t seed : FreshSeeds(20, 5)) {
    INFO(replay_of(seed));
    Scene scene = overlapping_scene(seed, 20);
    scene.adding_steps = 1000;
    Watched first(scene), second(scene);
    first.run();
    second.run();
    REQUIRE(first.world.trace_hash() == second.world.trace_hash());
    REQUIRE(first.world.now() == second.world.now());
    for (std::uint32_t i = 0; i < first.world.machines(); ++i) {
      const auto a = first.parameters(i), b = second.parameters(i);
      for (std::size_t f = 0; f < a.size(); ++f)
        REQUIRE(std::bit_cast<std::uint32_t>(a[f]) == std::bit_cast<std::uint32_t>(b[f]));
    }
    scene.options.seed = seed + 1000;
    Watched other(scene);
    other.run();
    REQUIRE(other.world.trace_hash() != first.world.trace_hash());
  }
}

}  // namespace starling::lab

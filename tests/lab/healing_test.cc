// Faults that a swarm survives, at the product's default intervals: a partition of an hour, two hundred joins
// at once through one address, and a crash of the peer at that address.
#include <string>

#include "lab/world/world.h"
#include "tests/catch.h"

namespace starling::lab {
namespace {

using namespace std::chrono_literals;

WorldOptions swarm_of(std::uint32_t n) {
  WorldOptions options;
  options.arena_floats = options.mix.cell_floats = 1;
  options.network.latency = options.network.latency_jitter = 1ms;
  options.rules = gossip::RunRules{*topologies::Topology::parse("ring"), Rule::none, {}, {}};
  for (std::uint32_t i = 0; i < n; ++i) {
    MachineOptions machine;
    machine.name = "p" + std::to_string(i);
    machine.step = 1s;
    options.machines.push_back(machine);
  }
  return options;
}

struct Swarm {
  explicit Swarm(WorldOptions options)
      : world(std::move(options), [](std::uint32_t) { return std::make_unique<IdleLearner>(1); }, {0.0F}) {}

  void run_until(Duration when) {
    while (world.now() < Instant{when} && world.run_one()) {
    }
  }
  // Whether the live members in the view of each running machine are exactly the other running ones.
  bool is_one() const {
    std::size_t running = 0;
    for (std::uint32_t i = 0; i < world.machines(); ++i)
      running += world.machine(i).state == MachineState::running;
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      const auto machine = world.machine(i);
      if (machine.state != MachineState::running) continue;
      if (machine.membership->view().members.live() + 1 != running) return false;
      for (const gossip::Record& record : machine.membership->others()) {
        if (!record.is_live()) continue;
        const auto other = world.machine_of(record.member.id);
        if (world.machine(*other).id != record.member.id) return false;  // an earlier instance
        if (world.machine(*other).state != MachineState::running) return false;
      }
    }
    return true;
  }
  // The time at which the swarm is united, checked ten times a second; kNever if it is not before the limit.
  Instant one_by(Duration when) {
    while (world.now() < Instant{when}) {
      if (is_one()) return world.now();
      run_until(world.now().since_start + 100ms);
    }
    return is_one() ? world.now() : kNever;
  }

  World world;
};

}  // namespace

TEST_CASE("a partition of an hour heals within a minute of reconnection") {
  for (const std::uint32_t n : {2, 3, 8}) {
    WorldOptions options = swarm_of(n);
    options.seed = n;
    const Instant whole = Instant{3640s};
    options.incidents.push_back(Partition{{0, n / 3}, Instant{40s}, whole, true, true});
    Swarm swarm(std::move(options));
    CAPTURE(n);
    REQUIRE(swarm.one_by(20s) < Instant{20s});
    swarm.run_until(100s);
    REQUIRE_FALSE(swarm.is_one());
    swarm.run_until(3640s);
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto machine = swarm.world.machine(i);
      REQUIRE(machine.state == MachineState::running);
      const std::size_t island = n / 3 == 0 ? 1 : 2;
      const bool inside = i == 0 || i == n / 3;
      REQUIRE(machine.membership->view().members.live() + 1 == (inside ? island : n - island));
    }
    REQUIRE(swarm.one_by(3700s) < Instant{3700s});
  }
}

TEST_CASE("two hundred peers that start at once through one address are one swarm within ten seconds") {
  Swarm swarm(swarm_of(200));
  REQUIRE(swarm.one_by(10s) < Instant{10s});
}

TEST_CASE("the peer through which all others join may crash at any time") {
  for (const Duration death : {300ms, 600ms, 1000ms, 3000ms}) {
    WorldOptions options = swarm_of(40);
    for (std::uint32_t i = 1; i < 40; ++i) {
      // All join before the crash. A joiner whose only address is dead cannot join.
      options.machines[i].start = Instant{std::chrono::milliseconds(5 * i)};
    }
    options.incidents.push_back(Crash{0, Instant{death}, true, {}, false});
    Swarm swarm(std::move(options));
    CAPTURE(death.count());
    swarm.run_until(death + 1ms);
    REQUIRE_FALSE(swarm.world.machine(0).state == MachineState::running);
    REQUIRE(swarm.one_by(30s) < Instant{30s});
    std::size_t training = 0;
    for (std::uint32_t i = 1; i < 40; ++i) {
      REQUIRE(swarm.world.machine(i).state == MachineState::running);
      training += swarm.world.machine(i).phase == wire::Phase::training;
    }
    CHECK(training == 39);
  }
}

}  // namespace starling::lab

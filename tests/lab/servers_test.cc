// Rules with parameter servers, in virtual time.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/lab/world_story.h"
#include "tests/seeds.h"

namespace starling::lab {

namespace {

// Adds one to every float at each step, so that a replica's values count steps.
class Counter : public Learner {
 public:
  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena& arena) override {
    arena.add(0, std::vector<float>(arena.size(), 1));
    return 1;
  }
};

struct Served {
  Rule rule = Rule::parameter_server;
  std::uint32_t workers = 4;
  gossip::Servers servers{};
  gossip::End end{};
  std::vector<double> slow = {};  // by worker; 1 beyond its end
  Duration step = 10ms;
  std::vector<Incident> incidents = {};
};

// `workers` machines p0, p1, ... that count their steps, followed by the servers.
class Hall {
 public:
  Hall(const Served& served, std::uint64_t seed = 1)
      : workers_(served.workers),
        servers_(served.servers.shards + served.servers.racks),
        world_(
            options(served, seed), [](std::uint32_t) { return std::make_unique<Counter>(); },
            std::vector<float>(kFloats)) {}

  World& world() { return world_; }
  World::MachineView worker(std::uint32_t i) const { return world_.machine(i); }
  World::MachineView server(std::uint32_t k) const { return world_.machine(workers_ + k); }
  std::uint32_t workers() const { return workers_; }
  std::uint64_t steps() const {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < workers_; ++i) sum += worker(i).steps;
    return sum;
  }
  // Runs to the end; a run that hangs fails.
  void run(Duration limit = 1h) {
    while (!world_.over()) {
      REQUIRE(world_.run_one());
      REQUIRE(world_.now().since_start < limit);
    }
  }

  static constexpr std::size_t kFloats = 29;  // in cells of 8, 8, 8 and 5

 private:
  static WorldOptions options(const Served& served, std::uint64_t seed) {
    Scene scene = scene_of(
        seed, served.workers,
        {*topologies::Topology::parse("complete"), served.rule, {Pace::Kind::steps, 1, {}}, served.end},
        served.step);
    scene.options.rules->servers = served.servers;
    scene.options.mix.rule = served.rule;
    scene.options.mix.wary = false;
    scene.options.network.latency = 200us;
    scene.options.incidents = served.incidents;
    for (std::uint32_t i = 0; i < served.slow.size(); ++i)
      scene.options.incidents.emplace_back(Slow{i, training::Slowness(served.slow[i]), Instant{}, kNever});
    scene.options.beginner = served.workers;
    for (std::uint32_t k = 0; k < served.servers.shards + served.servers.racks; ++k) {
      scene.options.machines.emplace_back();
      scene.options.machines.back().name = "s" + std::to_string(k);
    }
    return scene.options;
  }

  std::uint32_t workers_, servers_;
  World world_;
};

std::uint64_t most(const Hall& hall) {
  std::uint64_t round = 0;
  for (std::uint32_t i = 0; i < hall.workers(); ++i) round = std::max(round, hall.worker(i).round);
  return round;
}

}  // namespace

TEST_CASE("the servers receive every step of every worker once, with its share") {
  for (const std::uint64_t seed : FreshSeeds(50)) {
    INFO(replay_of(seed));
    Random random = Random(seed).split(3);
    Served served;
    served.workers = static_cast<std::uint32_t>(1 + random.below(6));
    served.servers.shards = static_cast<std::uint32_t>(1 + random.below(4));
    served.servers.rate = 0.25;
    served.end.steps = 5 + random.below(40);
    for (std::uint32_t i = 0; i < served.workers; ++i) served.slow.push_back(1 + random.uniform() * 5);
    Hall hall(served, seed);
    hall.run();
    // A server has the shares of all steps. No worker's copy was ahead of its pushes.
    for (std::uint32_t k = 0; k < served.servers.shards; ++k) {
      const auto cells = training::CellGrid{Hall::kFloats, 8}.part(k, served.servers.shards);
      const float value = hall.server(k).arena.data()[cells.first * 8];
      REQUIRE(std::abs(value - 0.25F * static_cast<float>(hall.steps())) < 0.26F);
      REQUIRE(hall.server(k).state == MachineState::finished);
    }
    for (std::uint32_t i = 0; i < served.workers; ++i) {
      REQUIRE(hall.worker(i).steps == *served.end.steps);
      REQUIRE(hall.worker(i).state == MachineState::finished);
      REQUIRE(hall.worker(i).exchanges.aborted == 0);
    }
  }
}

TEST_CASE("asynchronous workers make as many steps as a single worker, even if others are slow") {
  Served served;
  served.workers = 6;
  served.servers.shards = 2;
  served.slow = {1, 1, 10};
  served.end.time = 10s;
  Hall hall(served);
  hall.run();
  for (const std::uint32_t i : {0U, 1U, 3U, 4U, 5U}) REQUIRE(hall.worker(i).steps > 970);
  REQUIRE(hall.worker(2).steps > 95);
  REQUIRE(hall.worker(2).steps <= 100);
}

TEST_CASE("under ssp no peer exceeds the bound of pushes ahead, and none waits needlessly") {
  std::uint64_t bounds_met = 0;
  for (const std::uint64_t seed : FreshSeeds(100)) {
    INFO(replay_of(seed));
    Random random = Random(seed).split(4);
    Served served;
    served.rule = Rule::ssp;
    served.workers = static_cast<std::uint32_t>(2 + random.below(6));
    served.servers.shards = static_cast<std::uint32_t>(1 + random.below(4));
    served.servers.staleness = 1 + random.below(5);
    served.end.steps = 20 + random.below(40);
    double slowest = 1;
    for (std::uint32_t i = 0; i < served.workers; ++i) {
      served.slow.push_back(random.chance(0.5) ? 1 : 1 + random.uniform() * 12);
      slowest = std::max(slowest, served.slow.back());
    }
    Hall hall(served, seed);
    std::uint64_t apart_most = 0;
    std::uint64_t rounds_seen = 0;
    Instant pushed;  // when the last push was answered
    while (!hall.world().over()) {
      REQUIRE(hall.world().run_one());
      std::uint64_t rounds = 0;
      for (std::uint32_t i = 0; i < served.workers; ++i) rounds += hall.worker(i).round;
      if (rounds != std::exchange(rounds_seen, rounds)) pushed = hall.world().now();
      bool all_train = true;  // and have pushed once, because a server counts only these workers
      std::uint64_t least = UINT64_MAX;
      for (std::uint32_t i = 0; i < served.workers; ++i) {
        all_train = all_train && hall.worker(i).phase == wire::Phase::training && hall.worker(i).round > 0;
        least = std::min(least, hall.worker(i).round);
      }
      if (!all_train) continue;
      // A round counts when its push has ended; the slowest may have begun the next one.
      apart_most = std::max(apart_most, most(hall) - least);
      REQUIRE(most(hall) <= least + 1 + served.servers.staleness);
    }
    if (apart_most >= served.servers.staleness) ++bounds_met;
    // The duration of the slowest, without a timeout.
    const double alone = static_cast<double>(*served.end.steps) * to_seconds(served.step) * slowest;
    REQUIRE(to_seconds(pushed.since_start) < 1.15 * alone + 1);
  }
  REQUIRE(bounds_met > 0);  // otherwise no worker was ever held back
}

TEST_CASE("a push to a server without cells completes at once") {
  Served served;
  served.workers = 2;
  served.servers.shards = 6;  // the arena has 4 cells
  served.end.steps = 20;
  Hall hall(served);
  hall.run();
  for (std::uint32_t i = 0; i < served.workers; ++i) {
    REQUIRE(hall.worker(i).steps == *served.end.steps);
    REQUIRE(hall.worker(i).state == MachineState::finished);
    REQUIRE(hall.worker(i).exchanges.completed > *served.end.steps);
    REQUIRE(hall.worker(i).exchanges.aborted == 0);
  }
}

}  // namespace starling::lab

// Virtual worlds for tests: tiny arenas, a learner that adds known increments, and links with delays that
// vary as much as the time between exchanges, so that exchanges overlap heavily. Watched computes the
// expected values.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "lab/world/world.h"

namespace starling::lab {

using namespace std::chrono_literals;

inline Instant at_instant(Duration since_start) { return Instant{since_start}; }

// The sum of all increments of a world's learners, and their number.
struct Ledger {
  double added = 0;
  std::uint64_t times = 0;
};

// Adds normal increments to every float in each of its first `times` steps, and nothing later (rate 0).
class Adder : public Learner {
 public:
  Adder(Random random, std::uint64_t times, Ledger& ledger)
      : random_(random), left_(times), ledger_(ledger) {}
  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena& arena) override {
    if (left_ == 0) return 1;
    --left_;
    std::vector<float> delta(arena.size());
    for (float& d : delta) {
      d = static_cast<float>(random_.normal());
      ledger_.added += d;
    }
    arena.add(0, delta);
    ++ledger_.times;
    return 1;
  }

 private:
  Random random_;
  std::uint64_t left_;
  Ledger& ledger_;
};

struct Scene {
  WorldOptions options;
  std::uint64_t adding_steps = 0;  // of each machine
};

inline gossip::RunRules rules_of(const std::string& topology, Pace pace, gossip::End end) {
  return {*topologies::Topology::parse(topology), Rule::pairwise, pace, end};
}

// `n` machines p0, p1, ... that step every `step`, with 29 floats in chunks of 8, 8, 8 and 5.
inline Scene scene_of(std::uint64_t seed, std::uint32_t n, gossip::RunRules rules, Duration step = 1ms) {
  Scene scene;
  scene.options.seed = seed;
  scene.options.arena_floats = 29;
  scene.options.mix.cell_floats = 8;
  scene.options.chunk_cells = 1;
  scene.options.window = 3;
  scene.options.rules = std::move(rules);
  for (std::uint32_t i = 0; i < n; ++i) {
    MachineOptions machine;
    machine.name = "p" + std::to_string(i);
    machine.step = step;
    scene.options.machines.push_back(std::move(machine));
  }
  return scene;
}

// Two to eight machines; topology, pacing, workers, window and delays drawn from the seed.
inline Scene overlapping_scene(std::uint64_t seed, std::uint64_t steps) {
  Random random = Random(seed).split(77);
  static const std::vector<std::string> kTopologies = {"complete", "ring", "exponential", "uniform"};
  Pace pace;
  switch (random.below(3)) {
    case 0:
      pace.kind = Pace::Kind::always;
      break;
    case 1:
      pace.steps = 1 + random.below(3);
      break;
    default:
      pace.kind = Pace::Kind::time;
      pace.time = Duration{static_cast<std::int64_t>(500'000 + random.below(2'500'000))};
  }
  const auto n = static_cast<std::uint32_t>(2 + random.below(7));
  Scene scene = scene_of(seed, n, rules_of(kTopologies[random.below(4)], pace, {{}, steps, {}}));
  scene.options.network.latency = 100us;
  scene.options.network.latency_jitter = Duration{static_cast<std::int64_t>(random.below(2'000'000))};
  scene.options.window = 1 + random.below(4);
  for (auto& machine : scene.options.machines) {
    machine.workers = 1 + static_cast<std::uint32_t>(random.below(2));
    machine.step = Duration{static_cast<std::int64_t>(500'000 + random.below(1'000'000))};
  }
  return scene;
}

// A world and its expected sum of parameters: the first machine's initial values, the copies of joiners, and
// the increments of learners.
class Watched {
 public:
  explicit Watched(const Scene& scene)
      : had_parameters_(scene.options.machines.size()),
        world(
            scene.options,
            [this, random = Random(scene.options.seed).split(78), times = scene.adding_steps](
                std::uint32_t i) { return std::make_unique<Adder>(random.split(i), times, ledger_); },
            first_parameters(scene)) {
    look();
  }

  bool run_one() {
    if (!world.run_one()) return false;
    look();
    return true;
  }
  bool over() const {
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      const MachineState state = world.machine(i).state;
      if (state == MachineState::waiting || state == MachineState::running) return false;
    }
    return true;
  }
  void run(Instant until = kNever) {
    while (!over() && world.now() < until && run_one()) {
    }
  }

  double sum() const {
    double total = 0;
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      if (had_parameters_[i]) total += sum_of(i);
    }
    return total;
  }
  double expected_sum() const { return copied_ + ledger_.added; }
  bool all_have_parameters() const { return with_parameters_ == had_parameters_.size(); }
  std::uint64_t increments() const { return ledger_.times; }

  // The sums of x^2 and |x - mean|^2 over all machines and floats.
  struct Spread {
    double square, disagreement;
  };
  Spread spread() const {
    const auto n = static_cast<double>(world.machines());
    Spread s{0, 0};
    for (std::size_t f = 0; f < world.machine(0).arena.size(); ++f) {
      double mean = 0;
      for (std::uint32_t i = 0; i < world.machines(); ++i) mean += world.machine(i).arena.data()[f] / n;
      for (std::uint32_t i = 0; i < world.machines(); ++i) {
        const double x = world.machine(i).arena.data()[f];
        s.square += x * x;
        s.disagreement += (x - mean) * (x - mean);
      }
    }
    return s;
  }
  double largest() const {
    double largest = 0;
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      const auto& arena = world.machine(i).arena;
      for (std::size_t f = 0; f < arena.size(); ++f)
        largest = std::max<double>(largest, std::abs(arena.data()[f]));
    }
    return largest;
  }
  gossip::ExchangeCounts exchanges() const {
    gossip::ExchangeCounts total;
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      const auto& e = world.machine(i).exchanges;
      total.begun += e.begun;
      total.completed += e.completed;
      total.aborted += e.aborted;
      total.rejected += e.rejected;
      total.answered += e.answered;
    }
    return total;
  }
  std::uint64_t half_applied_chunks() const {
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < world.machines(); ++i) total += world.machine(i).half_applied_chunks;
    return total;
  }
  std::vector<float> parameters(std::uint32_t i) const {
    std::vector<float> copy(world.machine(i).arena.size());
    world.machine(i).arena.read(0, copy);
    return copy;
  }
  // The liveness of machine `of` in the membership of machine `i`.
  wire::Liveness seen(std::uint32_t i, std::uint32_t of) const {
    return world.machine(i).membership->find(world.machine(of).id)->member.liveness;
  }
  // The parameters that machine i copied or began with; empty before that.
  const std::vector<float>& first_copy(std::uint32_t i) const { return first_copies_[i]; }

  static std::vector<float> first_parameters(const Scene& scene) {
    Random random = Random(scene.options.seed).split(79);
    std::vector<float> first(scene.options.arena_floats);
    for (float& x : first) x = static_cast<float>(random.normal());
    return first;
  }

 private:
  double sum_of(std::uint32_t i) const {
    double sum = 0;
    const auto& arena = world.machine(i).arena;
    for (std::size_t f = 0; f < arena.size(); ++f) sum += arena.data()[f];
    return sum;
  }
  void look() {
    if (all_have_parameters()) return;
    first_copies_.resize(had_parameters_.size());
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      if (had_parameters_[i] || !world.machine(i).has_parameters) continue;
      had_parameters_[i] = true;
      ++with_parameters_;
      copied_ += sum_of(i);
      first_copies_[i] = parameters(i);
    }
  }

  Ledger ledger_;
  std::vector<bool> had_parameters_;
  std::size_t with_parameters_ = 0;
  std::vector<std::vector<float>> first_copies_;
  double copied_ = 0;

 public:
  World world;
};

}  // namespace starling::lab

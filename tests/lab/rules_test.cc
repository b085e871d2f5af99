// The guarantees of each exchange rule over time among many peers, without training (rate 0).

#include <cmath>
#include <vector>

#include "lab/measure/consensus.h"
#include "tests/catch.h"
#include "tests/lab/world_story.h"

namespace starling::lab {

namespace {

// n machines with normally distributed parameters that exchange by a rule and do not train.
class Mixing {
 public:
  Mixing(Rule rule, std::uint32_t n, const std::string& topology, std::uint64_t seed,
         Payload payload = Payload::f32)
      : world_(
            options(rule, n, topology, seed, payload),
            [](std::uint32_t) { return std::make_unique<IdleLearner>(1); }, std::vector<float>(kFloats)) {
    while (!everyone_trains()) run_for(10ms);
    run_for(1s);  // until all have joined
    while (!world_.quiet()) world_.run_one();
    Random random = Random(seed).split(5);
    std::vector<float> values(kFloats);
    for (std::uint32_t i = 0; i < n; ++i) {
      for (float& x : values) x = static_cast<float>(random.normal());
      world_.set_parameters(i, values);
    }
    mean_ = mean();
  }

  void run_for(Duration time) {
    const Instant until = world_.now() + time;
    while (world_.now() < until && world_.run_one()) {
    }
  }
  std::vector<double> mean() const {
    std::vector<double> mean(kFloats);
    for (std::uint32_t i = 0; i < world_.machines(); ++i)
      for (std::size_t f = 0; f < kFloats; ++f)
        mean[f] += world_.machine(i).arena.data()[f] / double(world_.machines());
    return mean;
  }
  // Root of the mean square of all values' distances from their mean.
  double spread() const {
    const auto now = mean();
    double sum = 0;
    for (std::uint32_t i = 0; i < world_.machines(); ++i)
      for (std::size_t f = 0; f < kFloats; ++f)
        sum += std::pow(world_.machine(i).arena.data()[f] - now[f], 2);
    return std::sqrt(sum / double(kFloats * world_.machines()));
  }
  // The largest deviation of the mean from the initial one.
  double drift() const {
    const auto now = mean();
    double most = 0;
    for (std::size_t f = 0; f < kFloats; ++f) most = std::max(most, std::abs(now[f] - mean_[f]));
    return most;
  }
  World& world() { return world_; }

  // For rules in lock-step: runs until all have made the next round, and returns its number.
  std::uint64_t make_round() {
    const std::uint64_t last = world_.machine(0).round;
    const Instant limit = world_.now() + 10s;
    while (!(world_.machine(0).round > last && world_.quiet() && all_in_one_round())) {
      REQUIRE(world_.now() <= limit);
      world_.run_one();
    }
    return world_.machine(0).round;
  }

  static constexpr std::size_t kFloats = 64;
  static constexpr Duration kStep = 10ms;

 private:
  static WorldOptions options(Rule rule, std::uint32_t n, const std::string& topology, std::uint64_t seed,
                              Payload payload) {
    Pace pace{Pace::Kind::time, 0, 20ms};
    if (rule == Rule::d_psgd) pace = {Pace::Kind::steps, 1, {}};
    Scene scene = scene_of(seed, n, {*topologies::Topology::parse(topology), rule, pace, {}}, kStep);
    scene.options.arena_floats = kFloats;
    scene.options.mix.cell_floats = 8;
    scene.options.chunk_cells = 2;
    scene.options.mix.rule = rule;
    scene.options.mix.payload = payload;
    scene.options.mix.wary = false;
    scene.options.mix.seed = seed;
    return scene.options;
  }
  bool all_in_one_round() const {
    for (std::uint32_t i = 1; i < world_.machines(); ++i) {
      if (world_.machine(i).round != world_.machine(0).round) return false;
    }
    return true;
  }
  bool everyone_trains() const {
    for (std::uint32_t i = 0; i < world_.machines(); ++i) {
      const auto machine = world_.machine(i);
      if (machine.phase != wire::Phase::training ||
          machine.membership->view().members.live() + 1 != world_.machines())
        return false;
    }
    return true;
  }

  World world_;
  std::vector<double> mean_;
};

}  // namespace

TEST_CASE("pairwise and choco bring all replicas to the initial mean, with every payload") {
  struct Case {
    Rule rule;
    Payload payload;
    double spread, drift;
  };
  for (const Case& c :
       {Case{Rule::pairwise, Payload::f32, 1e-5, 1e-5}, Case{Rule::pairwise, Payload::bf16, 0.05, 1e-5},
        Case{Rule::pairwise, Payload::int8, 0.1, 1e-5}, Case{Rule::choco, Payload::f32, 1e-3, 1e-5},
        Case{Rule::choco, Payload::int8, 1e-3, 1e-5}, Case{Rule::choco, Payload::top_k, 0.3, 1e-5}}) {
    CAPTURE(traits(c.rule).name, int(c.payload));
    Mixing mixing(c.rule, 6, "complete", 3, c.payload);
    const double before = mixing.spread();
    REQUIRE(before > 0.7);
    mixing.run_for(5s);
    while (!mixing.world().quiet()) mixing.world().run_one();
    CHECK(mixing.spread() < c.spread * before);
    CHECK(mixing.drift() < c.drift);
  }
}

TEST_CASE("push-sum brings all replicas together, also on a directed graph") {
  for (const std::string topology : {"complete", "directed-exponential", "ring"}) {
    CAPTURE(topology);
    Mixing mixing(Rule::push_sum, 6, topology, 4);
    const double before = mixing.spread();
    mixing.run_for(5s);
    CHECK(mixing.spread() < 1e-3 * before);
  }
}

TEST_CASE("noloco's outer steps shrink the spread, and clipped averaging does too") {
  for (const Rule rule : {Rule::noloco, Rule::clipped}) {
    CAPTURE(traits(rule).name);
    Mixing mixing(rule, 6, "complete", 5);
    const double before = mixing.spread();
    mixing.run_for(5s);
    CHECK(mixing.spread() < 0.05 * before);
  }
}

TEST_CASE("a lock-step round contracts the spread by its matrix, in the time of a step") {
  for (const std::string name : {"ring", "exponential", "star"}) {
    CAPTURE(name);
    constexpr std::uint32_t kPeers = 8;
    const auto expected =
        measure_lock_step(topologies::Topology::parse(name)->among(kPeers), std::nullopt, 1);
    REQUIRE((expected && expected->factor && *expected->factor > 0));
    Mixing mixing(Rule::d_psgd, kPeers, name, 9);
    const double before = mixing.spread();
    // The first rounds may mix replicas from before they were set, and faster modes must decay.
    std::uint64_t first = mixing.make_round();
    while (mixing.spread() > 5e-4 * before) first = mixing.make_round();
    const double then = mixing.spread();
    const Instant since = mixing.world().now();
    std::uint64_t last = first;
    while (mixing.spread() > 5e-6 * before) last = mixing.make_round();
    const auto rounds = double(last - first);
    REQUIRE(rounds > 3);
    const double factor = std::pow(mixing.spread() / then, 2 / rounds);  // V is a square
    CHECK(std::abs(factor / *expected->factor - 1) < 0.03);
    CHECK(mixing.drift() < 1e-5);
    CHECK(to_seconds(mixing.world().now() - since) / rounds < 1.2 * to_seconds(Mixing::kStep));
  }
}

TEST_CASE("in lock-step, peers of equal speed make rounds together, as many as steps") {
  const Pace pace{Pace::Kind::steps, 1, {}};
  Scene scene = scene_of(6, 6, {*topologies::Topology::parse("ring"), Rule::d_psgd, pace, {}}, 10ms);
  scene.options.mix.rule = Rule::d_psgd;
  Watched watched(scene);
  watched.run(at_instant(4s));
  std::uint64_t least = UINT64_MAX, most = 0;
  for (std::uint32_t i = 0; i < 6; ++i) {
    least = std::min(least, watched.world.machine(i).round);
    most = std::max(most, watched.world.machine(i).round);
  }
  CHECK(most - least <= 3);  // on a ring of six, two peers differ by at most one round per link between them
  CHECK(least > 300);        // of 400 steps in that time, less joining
}

TEST_CASE("a machine whose replica becomes NaN copies a neighbor's and does not harm others") {
  for (const Rule rule :
       {Rule::pairwise, Rule::push_sum, Rule::d_psgd, Rule::choco, Rule::noloco, Rule::clipped}) {
    CAPTURE(traits(rule).name);
    Pace pace{Pace::Kind::time, 0, 20ms};
    Scene scene = scene_of(7, 4, {*topologies::Topology::parse("complete"), rule, pace, {}}, 10ms);
    scene.options.mix.rule = rule;
    scene.options.incidents.push_back(Damage{2, at_instant(2s)});
    Watched watched(scene);
    watched.run(at_instant(6s));
    for (std::uint32_t i = 0; i < 4; ++i) {
      const auto machine = watched.world.machine(i);
      REQUIRE(machine.has_parameters);
      REQUIRE(machine.phase == wire::Phase::training);
      for (const float x : watched.parameters(i)) REQUIRE(std::isfinite(x));
    }
    REQUIRE(watched.world.machine(2).exchanges.aborted + watched.world.machine(2).exchanges.completed > 10);
  }
}

TEST_CASE("without barriers a stopped peer does not slow down the others") {
  for (const Rule rule : {Rule::pairwise, Rule::push_sum, Rule::choco, Rule::noloco, Rule::clipped}) {
    CAPTURE(traits(rule).name);
    Pace pace{Pace::Kind::time, 0, 20ms};
    Scene scene = scene_of(8, 4, {*topologies::Topology::parse("complete"), rule, pace, {}}, 10ms);
    scene.options.mix.rule = rule;
    scene.options.incidents.push_back(Pause{3, at_instant(2s), at_instant(8s)});
    Watched watched(scene);
    watched.run(at_instant(8s));
    for (std::uint32_t i = 0; i < 3; ++i) REQUIRE(watched.world.machine(i).steps >= 700);
    REQUIRE(watched.world.machine(3).steps <= 210);
  }
}

}  // namespace starling::lab

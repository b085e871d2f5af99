// The graphs of every family have the family's documented properties.
#include <bit>
#include <numbers>
#include <numeric>

#include "tests/contains.h"
#include "tests/topologies/family.h"
#include "topologies/spectra/analysis.h"

namespace starling::topologies {
namespace {

constexpr std::uint32_t kMost = 70;
constexpr double kPi = std::numbers::pi;

std::uint32_t degree(const Schedule& schedule, std::uint32_t peer) {
  return static_cast<std::uint32_t>(schedule.links(peer, 0).size());
}

std::size_t link_count(const Schedule& schedule) {
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < schedule.peers(); ++i) count += degree(schedule, i);
  return schedule.directed() ? count : count / 2;
}

std::uint32_t ceil_log2(std::uint32_t n) {
  std::uint32_t log = 0;
  while ((1ull << log) < n) ++log;
  return log;
}

// Applies all rounds of a period in lock-step: x_i = (1 - sum of weights) x_i + sum of weight * x_j over all
// j that link to i. For schedules whose weights are a mixing matrix.
std::vector<double> mix_by_weights(const Schedule& schedule, std::vector<double> x) {
  for (std::uint64_t round = 0; round < schedule.period(); ++round) {
    const std::vector<double> old = x;
    for (std::uint32_t i = 0; i < schedule.peers(); ++i)
      for (const Link& link : schedule.links(i, round))
        x[link.peer] += link.weight * (old[i] - old[link.peer]);
  }
  return x;
}

double spread(const std::vector<double>& x, double mean) {
  double most = 0;
  for (const double value : x) most = std::max(most, std::abs(value - mean));
  return most;
}

std::vector<double> random_values(std::uint32_t n) {
  Random random(n);
  std::vector<double> x(n);
  for (double& value : x) value = random.uniform(-1, 1);
  return x;
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

}  // namespace

TEST_CASE("links of every family are sorted, distinct, without loops, and symmetric unless directed") {
  for (const std::string& name : all_families()) {
    const Topology topology = named(name);
    for (std::uint32_t n = 1; n <= kMost; ++n) {
      const Schedule schedule = topology.among(n);
      CAPTURE(name, n);
      REQUIRE(schedule.peers() == n);
      for (std::uint64_t round = 0; round < schedule.period(); ++round) {
        std::vector<Links> all;
        for (std::uint32_t i = 0; i < n; ++i) all.push_back(schedule.links(i, round));
        bool sound = true;
        for (std::uint32_t i = 0; i < n; ++i) {
          for (std::size_t l = 0; l < all[i].size(); ++l) {
            const auto [j, weight] = all[i][l];
            sound = sound && j < n && j != i && (l == 0 || all[i][l - 1].peer < j) && weight > 0;
            if (sound && !schedule.directed())
              sound = std::find(all[j].begin(), all[j].end(), Link{i, weight}) != all[j].end();
            if (schedule.weights() == Weights::equal) sound = sound && weight == 1;
          }
        }
        REQUIRE(sound);
      }
    }
  }
}

TEST_CASE("every family is connected over its period, for any number of peers") {
  for (const std::string& name : all_families()) {
    const Topology topology = named(name);
    for (std::uint32_t n = 1; n <= kMost; ++n) {
      CAPTURE(name, n);
      REQUIRE(reaches_all(n, arcs(topology.among(n))));
    }
  }
}

TEST_CASE("every family has its documented direction, weights and period") {
  for (const std::string& name : all_families()) {
    CAPTURE(name);
    const bool directed = name == "directed-exponential" || name == "one-peer-exponential";
    const bool base = name.starts_with("base");
    for (const std::uint32_t n : {1u, 2u, 12u, 64u, 65u}) {
      const Schedule schedule = named(name).among(n);
      CHECK(schedule.directed() == directed);
      CHECK(schedule.weights() == (base ? Weights::mixing : Weights::equal));
      if (name == "one-peer-exponential") CHECK(schedule.period() == std::max(1u, ceil_log2(n)));
      if (name != "one-peer-exponential" && !base) CHECK(schedule.period() == 1);
    }
  }
}

TEST_CASE("the same name and peers give the same graph, in any order of queries") {
  for (const std::string& name : all_families()) {
    CAPTURE(name);
    const Schedule one = named(name).among(33), other = named(name).among(33);
    for (std::uint32_t i = 0; i < 33; ++i) REQUIRE(one.links(32 - i, 0) == other.links(32 - i, 0));
    REQUIRE(one.links(7, 0) == other.links(7, 0));
  }
}

TEST_CASE("line, star, tree and dumbbell have the expected links") {
  REQUIRE(neighbors(named("line").among(5), 0) == List{1});
  REQUIRE(neighbors(named("line").among(5), 3) == List{2, 4});
  REQUIRE(neighbors(named("line").among(5), 4) == List{3});
  REQUIRE(neighbors(named("star").among(5), 0) == List{1, 2, 3, 4});
  REQUIRE(neighbors(named("star").among(5), 3) == List{0});
  REQUIRE(neighbors(named("tree").among(6), 0) == List{1, 2});
  REQUIRE(neighbors(named("tree").among(6), 1) == List{0, 3, 4});
  REQUIRE(neighbors(named("tree").among(6), 2) == List{0, 5});
  REQUIRE(neighbors(named("dumbbell").among(7), 3) == List{0, 1, 2, 4});
  REQUIRE(neighbors(named("dumbbell").among(7), 4) == List{3, 5, 6});
  REQUIRE(neighbors(named("dumbbell").among(7), 0) == List{1, 2, 3});
  for (std::size_t n = 1; n <= kMost; ++n) {
    const auto peers = static_cast<std::uint32_t>(n);
    for (const char* name : {"line", "star", "tree"}) CHECK(link_count(named(name).among(peers)) == n - 1);
    const std::size_t left = (n + 1) / 2, right = n / 2;
    CHECK(link_count(named("dumbbell").among(peers)) ==
          left * (left - 1) / 2 + (right > 0 ? right * (right - 1) / 2 + 1 : 0));
    CHECK(link_count(named("complete").among(peers)) == n * (n - 1) / 2);
  }
}

TEST_CASE("a torus of r x c peers is the product of two rings, as close to a square as possible") {
  for (const auto& [r, c] :
       {std::pair{3u, 3u}, {3u, 4u}, {4u, 4u}, {3u, 7u}, {5u, 6u}, {6u, 10u}, {8u, 8u}}) {
    const Schedule torus = named("torus").among(r * c);
    for (std::uint32_t i = 0; i < r * c; ++i) {
      List expected;
      for (std::uint32_t j = 0; j < r * c; ++j) {
        const std::uint32_t down = (j / c + r - i / c) % r, across = (j % c + c - i % c) % c;
        if ((down == 0 && (across == 1 || across == c - 1)) || (across == 0 && (down == 1 || down == r - 1)))
          expected.push_back(j);
      }
      REQUIRE(neighbors(torus, i) == expected);
    }
  }
}

TEST_CASE("a torus with a short last row closes that row and every column") {
  // 0 1 2
  // 3 4 5
  // 6
  const Schedule seven = named("torus").among(7);
  REQUIRE(neighbors(seven, 0) == List{1, 2, 3, 6});
  REQUIRE(neighbors(seven, 1) == List{0, 2, 4});
  REQUIRE(neighbors(seven, 5) == List{2, 3, 4});
  REQUIRE(neighbors(seven, 6) == List{0, 3});
  for (std::uint32_t n = 1; n <= kMost; ++n) {
    const Schedule torus = named("torus").among(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      CHECK(degree(torus, i) <= 4);
      if (n >= 4) CHECK(degree(torus, i) >= 2);
    }
  }
}

TEST_CASE("hypercube neighbors differ in one bit, and the graph exists only for 2^d peers") {
  for (std::uint32_t n = 1; n <= kMost; ++n) {
    const Schedule cube = named("hypercube").among(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      List expected;
      for (std::uint32_t j = 0; j < n; ++j)
        if (std::popcount(i ^ j) == 1) expected.push_back(j);
      REQUIRE(neighbors(cube, i) == expected);
    }
    CHECK(named("hypercube").exists(n).ok() == (std::popcount(n) == 1));
  }
  CHECK(named("hypercube").exists(33).error().message ==
        "topology 'hypercube' does not exist for 33 peers; expected 2^d, for example 32 or 64");
}

TEST_CASE("directed-exponential links i to i + 2^k; one-peer-exponential uses one of these per round") {
  REQUIRE(neighbors(named("directed-exponential").among(6), 4) == List{0, 2, 5});
  for (std::uint32_t n = 2; n <= kMost; ++n) {
    const Schedule all = named("directed-exponential").among(n);
    const Schedule one = named("one-peer-exponential").among(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      CHECK(degree(all, i) == ceil_log2(n));
      List in_turn;
      for (std::uint64_t round = 0; round < one.period(); ++round) {
        const List list = neighbors(one, i, round);
        REQUIRE(list == List{(i + (1u << round)) % n});
        in_turn.push_back(list[0]);
      }
      std::sort(in_turn.begin(), in_turn.end());
      CHECK(in_turn == neighbors(all, i));
      CHECK(neighbors(one, i, one.period()) == neighbors(one, i, 0));
    }
  }
}

TEST_CASE("one-peer-exponential averages 2^d peers exactly in d rounds of x <- (own + received) / 2") {
  for (std::uint32_t n = 1; n <= 1024; n *= 2) {
    const Schedule schedule = named("one-peer-exponential").among(n);
    std::vector<double> x = random_values(n);
    const double mean = mean_of(x);
    for (std::uint64_t round = 0; round < ceil_log2(n); ++round) {
      const std::vector<double> old = x;
      for (std::uint32_t i = 0; i < n; ++i)
        for (const Link& link : schedule.links(i, round)) x[link.peer] = (old[link.peer] + old[i]) / 2;
    }
    CAPTURE(n);
    REQUIRE(spread(x, mean) < 1e-12);
  }
}

TEST_CASE("Base-(k+1) averages any number of peers exactly in one period, with at most k links per round") {
  for (std::uint32_t k = 1; k <= 4; ++k) {
    const Topology topology = named("base:k=" + std::to_string(k));
    for (std::uint32_t n = 1; n <= 130; ++n) {
      const Schedule schedule = topology.among(n);
      CAPTURE(k, n);
      std::uint32_t most = 0;
      for (std::uint64_t round = 0; round < schedule.period(); ++round) {
        for (std::uint32_t i = 0; i < n; ++i) {
          const Links links = schedule.links(i, round);
          most = std::max(most, static_cast<std::uint32_t>(links.size()));
          double sum = 0;
          for (const Link& link : links) sum += link.weight;
          REQUIRE(sum <= 1 + 1e-12);  // with symmetric weights: doubly stochastic and nonnegative
        }
      }
      REQUIRE(most <= k);
      const std::vector<double> x = random_values(n);
      REQUIRE(spread(mix_by_weights(schedule, x), mean_of(x)) < 1e-12);
      // The lower bound is the number of rounds to reach all peers, the upper one is the paper's, 2 log n
      // + 2.
      if (n > 1) {
        const auto logs = std::log(n) / std::log(k + 1);
        REQUIRE(schedule.period() >= static_cast<std::uint64_t>(std::ceil(logs - 1e-9)));
        REQUIRE(schedule.period() <= static_cast<std::uint64_t>(2 * std::floor(logs + 1e-9) + 2));
      }
    }
  }
}

TEST_CASE("Base-(k+1) takes as many rounds as in its paper's figures") {
  const auto period = [](const char* name, std::uint32_t n) { return named(name).among(n).period(); };
  CHECK(period("base:k=1", 5) == 5);   // simple: 2 + 1 + 2
  CHECK(period("base:k=1", 6) == 4);   // 2 * 3: 3 rounds within the groups of three, and 1 between them
  CHECK(period("base:k=1", 64) == 6);  // a power of k + 1: the hyper-hypercube
  CHECK(period("base:k=2", 5) == 3);   // 3 + 2
  CHECK(period("base:k=2", 12) == 3);  // 3 * 2 * 2
  CHECK(period("base:k=4", 25) == 2);
  CHECK(period("base:k=69", 70) == 1);
}

TEST_CASE("Base-(k+1) exists for more than k peers") {
  CHECK(named("base:k=4").exists(5).ok());
  CHECK(named("base:k=5").exists(5).error().message ==
        "topology 'base:k=5' does not exist for 5 peers, because no peer has 5 others to link to; expected k "
        "from 1 to 4, or more than 5 peers");
  CHECK(named("base:k=5").among(5).period() == 1);
  for (const char* wrong : {"base:k=0", "base:k=x", "base:b=2"}) CHECK_FALSE(Topology::parse(wrong).ok());
}

TEST_CASE("the spectral gaps equal their closed forms") {
  const auto gap = [](const char* name, std::uint32_t n) {
    const auto found = spectral_gap(named(name).among(n));
    REQUIRE(found.has_value());
    return *found;
  };
  for (const std::uint32_t n : {3u, 5u, 16u, 33u, 64u}) {
    CAPTURE(n);
    CHECK(gap("line", n) == Approx(2.0 / 3 * (1 - std::cos(kPi / n))).epsilon(1e-8));
    CHECK(gap("star", n) == Approx(1.0 / n).epsilon(1e-8));
  }
  for (std::uint32_t d = 2; d <= 7; ++d)
    CHECK(gap("hypercube", 1u << d) == Approx(2.0 / (d + 1)).epsilon(1e-8));
  for (const auto& [r, c] :
       {std::pair{3u, 3u}, {3u, 4u}, {4u, 4u}, {3u, 7u}, {5u, 6u}, {8u, 8u}, {10u, 10u}}) {
    double second = 0;
    for (std::uint32_t i = 0; i < r; ++i)
      for (std::uint32_t j = 0; j < c; ++j)
        if (i + j > 0)
          second = std::max(second,
                            std::abs(1 + 2 * std::cos(2 * kPi * i / r) + 2 * std::cos(2 * kPi * j / c)) / 5);
    CAPTURE(r, c);
    CHECK(gap("torus", r * c) == Approx(1 - second).epsilon(1e-8));
  }
}

TEST_CASE("every vertex of a random regular graph has exactly k links, if such a graph exists") {
  for (std::uint32_t k = 2; k <= 12; ++k) {
    const Topology topology = named("random-regular:k=" + std::to_string(k));
    for (std::uint32_t n = 1; n <= kMost; ++n) {
      const Schedule schedule = topology.among(n);
      const bool there = k < n && n * k % 2 == 0;
      CAPTURE(k, n);
      REQUIRE(topology.exists(n).ok() == there);
      std::uint32_t others = 0;  // vertices of another degree
      for (std::uint32_t i = 0; i < n; ++i) {
        if (degree(schedule, i) == std::min(k, n - 1)) continue;
        ++others;
        REQUIRE((degree(schedule, i) + 1 == k || degree(schedule, i) == k + 1));
      }
      REQUIRE(others == (there || k >= n ? 0 : 1));
    }
  }
  CHECK(contains(named("random-regular:k=3").exists(7).error().message, "expected k=2, or 8 peers"));
  CHECK(contains(named("random-regular:k=8").exists(8).error().message,
                 "expected k from 2 to 7, or more than 8 peers"));
  CHECK_FALSE(Topology::parse("random-regular:k=1").ok());
}

TEST_CASE("random regular graphs are also regular with large degrees or thousands of vertices") {
  for (const auto& [n, k] : {std::pair{40u, 19u},
                             {40u, 20u},
                             {41u, 20u},
                             {40u, 37u},
                             {40u, 38u},
                             {10'000u, 4u},
                             {9'999u, 6u},
                             {3'000u, 101u}}) {
    const Schedule schedule = named("random-regular:k=" + std::to_string(k)).among(n);
    CAPTURE(n, k);
    bool regular = true;
    for (std::uint32_t i = 0; i < n; ++i) regular = regular && degree(schedule, i) == k;
    REQUIRE(regular);
  }
}

TEST_CASE("random regular graphs have the spectral gap expected of their degree") {
  // The adjacency's second eigenvalue is at most 2 sqrt(k - 1) + epsilon (Friedman). W = (1 + A) / (1 + k).
  for (const std::uint32_t k : {3u, 4u, 8u}) {
    const auto gap = spectral_gap(named("random-regular:k=" + std::to_string(k)).among(500));
    CHECK(*gap > 1 - (1 + 2 * std::sqrt(k - 1) + 0.2) / (1 + k));
  }
}

TEST_CASE("Erdos-Renyi graphs have a fraction p of all possible links") {
  for (const double p : {0.1, 0.3, 0.9}) {
    const std::uint32_t n = 300;
    const auto links = link_count(named("erdos-renyi:p=" + std::to_string(p)).among(n));
    const double pairs = n * (n - 1) / 2.0;
    CHECK(std::abs(static_cast<double>(links) - p * pairs) < 4 * std::sqrt(p * (1 - p) * pairs));
  }
  CHECK(link_count(named("erdos-renyi:p=1").among(20)) == 190);
  const double usual = static_cast<double>(link_count(named("erdos-renyi").among(1000)));
  CHECK(usual == Approx(1000 * std::log(1000)).epsilon(0.05));
}

TEST_CASE("a p that is too small is an error, and the graph is still connected") {
  const Status told = named("erdos-renyi:p=0.01").exists(50);
  REQUIRE_FALSE(told.ok());
  CHECK(told.error().message ==
        "topology 'erdos-renyi:p=0.01' does not exist for 50 peers, because none of 64 draws is connected; "
        "expected p of at least 0.157");
  CHECK(named("erdos-renyi:p=0.157").exists(50).ok());
  CHECK(reaches_all(50, arcs(named("erdos-renyi:p=0").among(50))));
  CHECK(link_count(named("erdos-renyi:p=0").among(50)) == 50);
}

TEST_CASE("a small world has n k / 2 links, and about a fraction p of them is rewired") {
  for (const double p : {0.0, 0.1, 0.5, 1.0}) {
    const std::uint32_t n = 400, k = 6;
    const Schedule schedule = named("small-world:k=6,p=" + std::to_string(p)).among(n);
    REQUIRE(link_count(schedule) == n * k / 2);
    double moved = 0;
    for (const auto& [i, j] : arcs(schedule))
      if (i < j && std::min(j - i, n - (j - i)) > k / 2) ++moved;
    // A fraction k / n of the rewired links stays local.
    const double links = n * k / 2.0, expected = p * (1 - k / (n - 1.0)) * links;
    CHECK(std::abs(moved - expected) <= 4 * std::sqrt(links * p * (1 - p) + links * p * k / n) + 1e-9);
  }
  for (std::uint32_t n = 5; n <= kMost; ++n) CHECK(link_count(named("small-world").among(n)) == 2 * n);
  CHECK(contains(Topology::parse("small-world:k=3").error().message, "k is 3; expected an even number"));
  CHECK(contains(named("small-world:k=8").exists(8).error().message,
                 "expected an even k below 8, or more than 8 peers"));
}

TEST_CASE("random families depend on the seed and on the peers' keys, not on vertex numbers") {
  for (const std::string family : {"random-regular:k=4", "erdos-renyi:p=0.2", "small-world:k=4,p=0.5"}) {
    CAPTURE(family);
    const std::uint32_t n = 40;
    CHECK(arcs(named(family + ",seed=1").among(n)) == arcs(named(family).among(n)));
    CHECK(arcs(named(family + ",seed=2").among(n)) != arcs(named(family).among(n)));
    std::vector<VertexKey> others = default_keys(n);
    for (VertexKey& key : others) key = ~key;
    CHECK(arcs(named(family).among(others)) != arcs(named(family).among(n)));
  }
  // In families that do not depend on vertex numbers, two peers that swap places keep their links.
  for (const std::string family : {"random-regular:k=4", "random-regular:k=5", "erdos-renyi:p=0.2"}) {
    CAPTURE(family);
    std::vector<VertexKey> keys = default_keys(40);
    std::swap(keys[3], keys[30]);
    const auto renamed = [](std::uint32_t i) { return i == 3 ? 30u : i == 30 ? 3u : i; };
    Arcs expected;
    for (const auto& [i, j] : arcs(named(family).among(40))) expected.emplace(renamed(i), renamed(j));
    CHECK(arcs(named(family).among(keys)) == expected);
  }
}

TEST_CASE("peers with equal names still form a connected graph") {
  for (const std::string& name : all_families()) {
    std::vector<VertexKey> keys = default_keys(20);
    for (std::uint32_t i = 5; i < 15; ++i) keys[i] = keys[4];
    CAPTURE(name);
    REQUIRE(reaches_all(20, arcs(named(name).among(keys))));
  }
}

}  // namespace starling::topologies

#include "topologies/spectra/analysis.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <numbers>
#include <numeric>
#include <set>
#include <string>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/seeds.h"
#include "tests/topologies/near.h"
#include "topologies/spectra/lanczos.h"
#include "topologies/spectra/mixing.h"
#include "topologies/topology.h"

namespace starling::topologies {
namespace {

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Graph graph_of(const std::string& name, std::uint32_t n) {
  auto graph = Graph::of(Topology::parse(name)->among(n));
  REQUIRE(graph.ok());
  return *graph;
}

Graph line(std::uint32_t n) {
  Edges edges;
  for (std::uint32_t i = 0; i + 1 < n; ++i) edges.emplace_back(i, i + 1);
  return Graph::from_edges(n, edges);
}

Graph star(std::uint32_t n) {
  Edges edges;
  for (std::uint32_t i = 1; i < n; ++i) edges.emplace_back(0, i);
  return Graph::from_edges(n, edges);
}

Graph hypercube(std::uint32_t dimensions) {
  Edges edges;
  for (std::uint32_t i = 0; i < 1u << dimensions; ++i)
    for (std::uint32_t d = 0; d < dimensions; ++d) edges.emplace_back(i, i ^ (1u << d));
  return Graph::from_edges(1u << dimensions, edges);
}

Schedule directed_ring(std::uint32_t n) {
  return Schedule(n, {.directed = true},
                  [n](std::uint32_t i, std::uint64_t) { return Links{{(i + 1) % n}}; });
}

// 1 minus the second-largest modulus of the matrix's eigenvalues. The largest is 1.
double dense_gap(const Schedule& schedule, std::optional<Mixing> mixing = std::nullopt) {
  const auto w = dense(*mixing_matrix(*Graph::of(schedule), mixing.value_or(default_mixing(schedule))));
  const auto n = static_cast<Eigen::Index>(schedule.peers());
  const Eigen::MatrixXd m = Eigen::Map<const Eigen::MatrixXd>(w.data(), n, n);
  std::vector<double> moduli;
  if (m.isApprox(m.transpose(), 1e-13)) {
    const Eigen::VectorXd values = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(m).eigenvalues();
    for (const double value : values) moduli.push_back(std::abs(value));
  } else {
    const Eigen::VectorXcd values = Eigen::EigenSolver<Eigen::MatrixXd>(m, false).eigenvalues();
    for (const auto& value : values) moduli.push_back(std::abs(value));
  }
  std::sort(moduli.begin(), moduli.end(), std::greater<>());
  return 1 - moduli[1];
}

// The map M -> sum_e p_e W_e M W_e + (1 - sum p) M on the projected matrices, as an explicit matrix of
// [n^2, n^2].
double dense_consensus_factor(std::uint32_t n, const std::vector<EdgeClock>& clocks) {
  const auto size = static_cast<Eigen::Index>(n);
  const Eigen::MatrixXd identity = Eigen::MatrixXd::Identity(size, size);
  const Eigen::MatrixXd project = identity.array() - 1.0 / n;
  const auto kronecker = [size](const Eigen::MatrixXd& w) {
    Eigen::MatrixXd product(size * size, size * size);
    for (Eigen::Index i = 0; i < size; ++i)
      for (Eigen::Index j = 0; j < size; ++j) product.block(i * size, j * size, size, size) = w(i, j) * w;
    return product;
  };
  Eigen::MatrixXd map = Eigen::MatrixXd::Zero(size * size, size * size);
  double idle = 1;
  for (const EdgeClock& clock : clocks) {
    Eigen::MatrixXd w = identity;
    w(clock.i, clock.i) = w(clock.j, clock.j) = w(clock.i, clock.j) = w(clock.j, clock.i) = 0.5;
    map += clock.probability * kronecker(project * w);
    idle -= clock.probability;
  }
  map += idle * kronecker(project);
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(map, Eigen::EigenvaluesOnly).eigenvalues().maxCoeff();
}

double ring_gap(double n) { return 1 - (1.0 / 3 + 2.0 / 3 * std::cos(2 * std::numbers::pi / n)); }

}  // namespace

TEST_CASE("the complete graph's gap is 1 and its factor (n - 2) / (n - 1)") {
  for (const std::uint32_t n : {3u, 16u, 64u, 200u}) {
    REQUIRE(near(spectral_gap(graph_of("complete", n)), 1, 1e-12));
    REQUIRE(near(consensus_factor(graph_of("complete", n)), (n - 2.0) / (n - 1.0), 1e-9));
  }
}

TEST_CASE("a gap has 12 digits, so that a gap of 1 is 1") {
  for (const std::uint32_t n : {2u, 3u, 5u, 7u, 8u, 16u, 33u, 64u}) {
    REQUIRE(spectral_gap(graph_of("complete", n)) == 1);
    REQUIRE(analyze(graph_of("complete", n)).spectral_gap == 1);
  }
  REQUIRE(spectral_gap(graph_of("ring", 3)) == 1);
  REQUIRE(spectral_gap(graph_of("star", 3)) == 0.333333333333);
}

TEST_CASE("the ring's gap is 1 - (1/3 + 2/3 cos(2 pi / n)), with the dense and the sparse solver",
          "[figures]") {
  for (const std::uint32_t n : {3u, 4u, 16u, 512u})
    REQUIRE(near(spectral_gap(graph_of("ring", n)), ring_gap(n), 1e-12));
  for (const std::uint32_t n : {513u, 2000u, 10000u})
    REQUIRE(near(spectral_gap(graph_of("ring", n)), ring_gap(n), 1e-6 * ring_gap(n)));
}

TEST_CASE("the gaps of hypercubes, stars, tori and lines equal their closed forms", "[figures]") {
  for (const std::uint32_t d : {1u, 2u, 4u, 6u, 10u, 13u})
    REQUIRE(near(spectral_gap(graph_of("hypercube", 1u << d)), 2.0 / (d + 1), 1e-9));
  for (const std::uint32_t n : {3u, 16u, 100u, 600u, 10000u})
    REQUIRE(near(spectral_gap(graph_of("star", n)), 1.0 / n, 1e-9));
  using Sides = std::pair<std::uint32_t, std::uint32_t>;
  for (const auto& [r, c] :
       {Sides(3, 3), Sides(4, 4), Sides(4, 5), Sides(8, 8), Sides(25, 25), Sides(100, 100)}) {
    CAPTURE(r, c);
    double modulus = 0;
    for (std::uint32_t i = 0; i < r; ++i)
      for (std::uint32_t j = i == 0 ? 1 : 0; j < c; ++j)
        modulus = std::max(modulus, std::abs(1 + 2 * std::cos(2 * std::numbers::pi * i / r) +
                                             2 * std::cos(2 * std::numbers::pi * j / c)) /
                                        5);
    REQUIRE(near(spectral_gap(graph_of("torus", r * c)), 1 - modulus, 1e-9));
  }
  for (const std::uint32_t n :
       {3u, 40u, 513u, 5000u}) {  // the Laplacian's eigenvalues are 2 - 2 cos(pi k / n), and W = I - L / 3
    const double gap = 2.0 / 3 * (1 - std::cos(std::numbers::pi / n));
    REQUIRE(near(spectral_gap(graph_of("line", n)), gap, 1e-9));
  }
}

TEST_CASE("the gaps of exponential graphs equal those of their circulants, directed and undirected") {
  for (const std::uint32_t n : {5u, 16u, 33u, 64u, 100u, 301u, 600u, 1024u, 3000u}) {
    CAPTURE(n);
    std::set<std::uint32_t> hops, both;
    for (std::uint32_t hop = 1; hop < n; hop *= 2) {
      hops.insert(hop);
      both.insert(hop);
      both.insert(n - hop);
    }
    const auto modulus = [n](const std::set<std::uint32_t>& distances) {
      double greatest = 0;
      for (std::uint32_t k = 1; k < n; ++k) {
        std::complex<double> sum = 1;
        for (const std::uint32_t hop : distances) sum += std::polar(1.0, 2 * std::numbers::pi * k * hop / n);
        greatest = std::max(greatest, std::abs(sum) / (1.0 + static_cast<double>(distances.size())));
      }
      return greatest;
    };
    REQUIRE(near(spectral_gap(Topology::parse("exponential")->among(n)), 1 - modulus(both), 1e-9));
    REQUIRE(near(spectral_gap(Topology::parse("directed-exponential")->among(n)), 1 - modulus(hops), 1e-9));
  }
  for (std::uint32_t d = 1; d <= 12; ++d)
    REQUIRE(near(spectral_gap(Topology::parse("directed-exponential")->among(1u << d)), 2.0 / (1 + d), 1e-9));
}

TEST_CASE("every family's gap equals a dense solver's, on both sides of the limit for dense matrices",
          "[figures]") {
  for (const char* name :
       {"complete", "ring", "line", "star", "torus", "exponential", "random-regular:k=4",
        "random-regular:k=3", "erdos-renyi", "small-world:k=4,p=0.1", "tree", "dumbbell"}) {
    for (const std::uint32_t n : {2u, 7u, 60u, 515u}) {
      CAPTURE(name, n);
      const auto schedule = Topology::parse(name)->among(n);
      REQUIRE(near(spectral_gap(schedule), dense_gap(schedule), 1e-9));
    }
  }
  for (const char* mixing : {"uniform", "lazy", "push-sum"}) {
    for (const char* name : {"star", "line", "small-world:k=4,p=0.1", "erdos-renyi", "tree"}) {
      for (const std::uint32_t n : {40u, 320u}) {
        CAPTURE(mixing, name, n);
        const auto schedule = Topology::parse(name)->among(n);
        const auto a = analyze(schedule, *parse_mixing(mixing));
        REQUIRE(a.ok());
        REQUIRE(near(a->spectral_gap, dense_gap(schedule, *parse_mixing(mixing)), 1e-8));
      }
    }
  }
}

TEST_CASE("a directed ring that keeps half has the modulus cos(pi / n)") {
  for (const std::uint32_t n : {3u, 10u, 299u}) {
    const auto schedule = directed_ring(n);
    REQUIRE(near(spectral_gap(schedule), 1 - std::cos(std::numbers::pi / n), 1e-9));
    const auto a = analyze(schedule);
    REQUIRE((a->directed && a->connected && a->diameter == n - 1 && a->edges == n));
    REQUIRE(a->mixing == Mixing::push_sum);
    REQUIRE(a->mean_preserved);
    REQUIRE(a->bipartite == (n % 2 == 0));
    REQUIRE(a->sends_per_round == 1);
    REQUIRE(near(a->round_factor, std::pow(std::cos(std::numbers::pi / n), 2), 1e-9));
  }
}

TEST_CASE("a directed graph without return paths is not connected") {
  const Schedule chain(4, {.directed = true},
                       [](std::uint32_t i, std::uint64_t) { return i < 3 ? Links{{i + 1}} : Links{}; });
  const auto a = analyze(chain);
  REQUIRE_FALSE(a->connected);
  REQUIRE_FALSE(a->diameter.has_value());
  REQUIRE(a->bipartite);
  REQUIRE((a->degree_min == 0 && a->degree_max == 1));
}

TEST_CASE("topologies that average exactly after a period are recognized") {
  for (const std::uint32_t d : {1u, 2u, 3u, 4u, 7u, 10u}) {
    const auto a = analyze(Topology::parse("one-peer-exponential")->among(1u << d));
    CAPTURE(d);
    REQUIRE(a->exact_after == d);
    REQUIRE(a->round_factor == 0.0);
    REQUIRE(a->rounds_to_tenth == static_cast<double>(d));
    REQUIRE(a->sends_per_round == 1);
    REQUIRE(a->mean_preserved);
    REQUIRE(a->spectral_gap.has_value() == (d == 1));  // a period of one is static
  }
  for (const char* name : {"base:k=1", "base:k=2", "base:k=3"}) {
    for (const std::uint32_t n : {2u, 3u, 5u, 6u, 12u, 31u, 100u, 301u}) {
      CAPTURE(name, n);
      const auto a = analyze(Topology::parse(name)->among(n));
      REQUIRE(a->exact_after == a->period);
      REQUIRE(a->round_factor == 0.0);
      REQUIRE(a->mixing == Mixing::given);
      REQUIRE(a->mean_preserved);
    }
  }
  const auto complete = analyze(Topology::parse("complete")->among(20));
  REQUIRE(complete->exact_after == 1u);
  REQUIRE(complete->rounds_to_tenth == 1.0);
  REQUIRE(complete->sends_per_round == 19);
}

TEST_CASE("the round factor is derived from the spectral radius of the period's product") {
  // One-peer exponential for peer counts that are not powers of two.
  for (const std::uint32_t n : {3u, 6u, 12u, 100u, 305u, 600u}) {
    CAPTURE(n);
    const auto schedule = Topology::parse("one-peer-exponential")->among(n);
    // The factors are circulant, so the product's eigenvalue k is the product of theirs, (1 + w^(k 2^r)) / 2.
    double greatest = 0;
    for (std::uint32_t k = 1; k < n; ++k) {
      double modulus = 1;
      for (std::uint64_t r = 0; r < schedule.period(); ++r)
        modulus *= std::abs(std::cos(std::numbers::pi * k * static_cast<double>(1u << r) / n));
      greatest = std::max(greatest, modulus);
    }
    const auto a = analyze(schedule);
    REQUIRE_FALSE(a->spectral_gap.has_value());
    REQUIRE_FALSE(a->exact_after.has_value());
    const double factor = std::pow(greatest, 2.0 / static_cast<double>(schedule.period()));
    REQUIRE(near(a->round_factor, factor, 1e-9));
    REQUIRE(near(a->rounds_to_tenth, -2 * std::numbers::ln10 / std::log(factor), 1e-6));
  }
}

TEST_CASE("repeated rounds shrink the disagreement at the predicted factor") {
  for (const char* name :
       {"ring", "tree", "directed-exponential", "one-peer-exponential", "small-world:k=4,p=0.1"}) {
    CAPTURE(name);
    const std::uint32_t n = 24;
    const auto schedule = Topology::parse(name)->among(n);
    const auto a = analyze(schedule);
    // For push-sum these are the numerators. Their sum is constant, so their disagreement shrinks like that
    // of the quotients.
    std::vector<double> x(n), y(n);
    Random random(5);
    for (double& v : x) v = random.normal();
    const std::uint64_t rounds = 100 * schedule.period();
    double logarithm = 0;
    for (std::uint64_t round = 0; round < 4 * rounds; ++round) {
      multiply(*mixing_matrix(*Graph::of(schedule, round % schedule.period()), a->mixing), x, y);
      const double mean = std::accumulate(y.begin(), y.end(), 0.0) / n;
      double square = 0;
      for (double& v : y) square += (v - mean) * (v - mean);
      for (std::uint32_t i = 0; i < n; ++i) x[i] = (y[i] - mean) / std::sqrt(square);  // unit length
      if (round >= rounds) logarithm += std::log(square);
    }
    REQUIRE(near(a->round_factor, std::exp(logarithm / (3.0 * static_cast<double>(rounds))), 0.003));
  }
}

TEST_CASE("uniform mixing preserves the swarm's mean on regular graphs only") {
  REQUIRE(analyze(Topology::parse("ring")->among(9), Mixing::uniform)->mean_preserved);
  REQUIRE_FALSE(analyze(Topology::parse("star")->among(9), Mixing::uniform)->mean_preserved);
  REQUIRE(analyze(Topology::parse("star")->among(9), Mixing::push_sum)->mean_preserved);
  REQUIRE_FALSE(analyze(Topology::parse("directed-exponential")->among(9), Mixing::metropolis).ok());
}

TEST_CASE("edge clocks follow rounds, weights and directions") {
  const auto probability = [](const std::vector<EdgeClock>& clocks, std::uint32_t i, std::uint32_t j) {
    for (const EdgeClock& clock : clocks)
      if (clock.i == i && clock.j == j) return clock.probability;
    return 0.0;
  };
  // A line of three: both ends always draw the middle, and the middle draws either end.
  const auto line3 = edge_clocks(line(3));
  REQUIRE(line3.size() == 2);
  REQUIRE(near(probability(line3, 0, 1), 1.0 / 3 + 1.0 / 6, 1e-15));
  // Peer 0 has two links in round 0, drawn with the ratio 3 : 1, one in round 1, and none in round 2.
  const Schedule schedule(3, {.period = 3, .weights = Weights::relative},
                          [](std::uint32_t i, std::uint64_t round) {
                            if (round == 0 && i == 0) return Links{{1, 1.5}, {2, 0.5}};
                            if (round == 0) return Links{{0, i == 1 ? 1.5 : 0.5}};
                            if (round == 1 && i < 2) return Links{{1 - i, 1.0}};
                            return Links{};
                          });
  const auto clocks = *edge_clocks(schedule);
  REQUIRE(clocks.size() == 2);
  // Peer 0 draws 1 in either of its rounds, and peer 1 always draws 0.
  REQUIRE(near(probability(clocks, 0, 1), (0.5 * 0.75 + 0.5 + 1) / 3, 1e-15));
  REQUIRE(near(probability(clocks, 0, 2), (0.5 * 0.25 + 1) / 3, 1e-15));
  // Along arcs only one end begins exchanges.
  const auto arcs = *edge_clocks(directed_ring(5));
  REQUIRE(arcs.size() == 5);
  for (const EdgeClock& clock : arcs) REQUIRE(near(clock.probability, 0.2, 1e-15));
}

TEST_CASE("the consensus factor is the greatest eigenvalue of the explicit second-moment map") {
  for (const char* name : {"ring", "line", "star", "tree", "dumbbell", "complete", "random-regular:k=3",
                           "erdos-renyi", "one-peer-exponential", "base:k=1", "directed-exponential"}) {
    for (const std::uint32_t n : {4u, 10u, 14u}) {
      CAPTURE(name, n);
      const auto clocks = *edge_clocks(Topology::parse(name)->among(n));
      const double expected = dense_consensus_factor(n, clocks);
      REQUIRE(near(consensus_factor(n, clocks), expected, 1e-9 * (1 - expected) + 1e-12));
    }
  }
}

TEST_CASE("the consensus factors of sixteen peers have their known values, within the bound") {
  REQUIRE(near(consensus_factor(graph_of("ring", 16)), 0.99058, 5e-6));
  REQUIRE(near(consensus_bound(graph_of("ring", 16)), 0.99524, 5e-6));
  REQUIRE(near(consensus_factor(graph_of("complete", 16)), 0.93333, 5e-6));
  REQUIRE(near(consensus_factor(graph_of("uniform", 16)), 0.93333, 5e-6));
  REQUIRE(near(consensus_factor(graph_of("exponential", 16)), 0.94103, 5e-6));
  for (const char* name : {"ring", "complete", "exponential"})
    for (const std::uint32_t n : {4u, 16u, 50u, 256u}) {
      const auto graph = graph_of(name, n);
      const auto factor = consensus_factor(graph), bound = consensus_bound(graph);
      REQUIRE(factor.has_value());
      REQUIRE(bound.has_value());
      CAPTURE(name, n, *factor, *bound);
      CHECK(*factor <= *bound + 1e-9);
      CHECK(1 - *factor <= 2 * (1 - *bound) + 1e-9);  // the bound's rate is up to a factor of two too low
    }
}

TEST_CASE("simulated exchanges shrink the disagreement at the predicted factor, also with unequal degrees") {
  // The mean of V after many exchanges over runs, against the factor.
  const auto graph = line(6);
  const std::uint32_t n = graph.nodes();
  const int runs = 20000, early = 30, late = 70;
  Random random(11);
  double at_early = 0, at_late = 0;
  for (int run = 0; run < runs; ++run) {
    std::vector<double> x(n);
    for (double& v : x) v = random.normal();
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    for (int t = 1; t <= late; ++t) {
      const auto i = static_cast<std::uint32_t>(random.below(n));
      const auto list = graph.neighbors(i);
      const auto j = list[random.below(list.size())];
      x[i] = x[j] = (x[i] + x[j]) / 2;
      if (t != early && t != late) continue;
      for (const double v : x) (t == early ? at_early : at_late) += (v - mean) * (v - mean);
    }
  }
  REQUIRE(near(consensus_factor(graph), std::pow(at_late / at_early, 1.0 / (late - early)), 0.003));
}

TEST_CASE("the consensus factor is accurate where gossip is slow") {
  // All edges of a ring are equivalent, so its second moments depend only on the distance. The spectral
  // radius of the recurrence for E[(x_i - x_{i+d})^2], d = 0 to n/2, is an independent value of the factor.
  const std::uint32_t n = 256, half = n / 2;
  const auto size = static_cast<Eigen::Index>(half);
  Eigen::MatrixXd map = Eigen::MatrixXd::Zero(size, size);  // distances 1 to n/2
  const double p = 1.0 / n;                                 // probability of each edge
  const auto index = [&](std::int64_t d) {                  // the distance, folded; -1 for 0
    d = ((d % n) + n) % n;
    return static_cast<Eigen::Index>(std::min<std::int64_t>(d, n - d)) - 1;
  };
  for (std::int64_t d = 1; d <= half; ++d) {
    // Vertices 0 and d. The edges at 0 are (-1, 0), (0, 1), those at d are (d - 1, d), (d, d + 1). An edge
    // (a, b) at 0 sets x_0 to m = (x_a + x_b) / 2: |m - y|^2 = (|a - y|^2 + |b - y|^2) / 2 - |a - b|^2 / 4.
    double stays = 1;
    const auto add = [&](std::int64_t distance, double weight) {
      if (index(distance) >= 0) map(index(d), index(distance)) += weight;
    };
    for (const std::int64_t step : {-1, 1}) {
      for (const bool at_zero : {true, false}) {
        const bool joins_both = (at_zero ? step : -step) == d || index(at_zero ? step - d : d + step) < 0;
        stays -= joins_both ? p / 2 : p;  // an edge between the two is counted at both ends
        if (joins_both) continue;         // and makes the two equal
        add(d, p / 2);
        add(at_zero ? d - step : d + step, p / 2);
        add(1, -p / 4);
      }
    }
    add(d, stays);
  }
  const double expected = Eigen::EigenSolver<Eigen::MatrixXd>(map, false).eigenvalues().cwiseAbs().maxCoeff();
  REQUIRE(near(consensus_factor(graph_of("ring", n)), expected, 1e-7 * (1 - expected)));
}

TEST_CASE("one, two and three nodes need no special treatment") {
  for (const char* name : {"complete", "ring", "exponential", "uniform"}) {
    CAPTURE(name);
    const auto one = analyze(Topology::parse(name)->among(1));
    REQUIRE(one.ok());
    REQUIRE(one->edges == 0);
    REQUIRE(one->connected);
    REQUIRE(one->diameter == 0u);
    REQUIRE(near(one->spectral_gap, 1, 0));
    REQUIRE(near(one->consensus_factor, 0, 0));
    const auto two = analyze(Topology::parse(name)->among(2));
    REQUIRE(two->edges == 1);
    REQUIRE(two->bipartite);
    REQUIRE(two->diameter == 1u);
    REQUIRE(near(two->spectral_gap, 1, 1e-12));
    REQUIRE(near(two->consensus_factor, 0, 1e-12));
    const auto three = analyze(Topology::parse(name)->among(3));
    REQUIRE(three->edges == 3);
    REQUIRE_FALSE(three->bipartite);
    REQUIRE(near(three->spectral_gap, 1, 1e-12));
    REQUIRE(near(three->consensus_factor, 0.5, 1e-9));
  }
  REQUIRE_FALSE(Topology::parse("ring")->exists(0).ok());
}

TEST_CASE("degrees, edges, diameter and bipartiteness of known graphs are right") {
  const auto ring = analyze(graph_of("ring", 9));
  REQUIRE((ring.degree_min == 2 && ring.degree_max == 2 && ring.edges == 9));
  REQUIRE(ring.diameter == 4u);
  REQUIRE_FALSE(ring.bipartite);
  REQUIRE(analyze(graph_of("ring", 10)).bipartite);

  const auto star9 = analyze(star(9));
  REQUIRE((star9.degree_min == 1 && star9.degree_max == 8));
  REQUIRE(std::abs(star9.degree_mean - 16.0 / 9) < 1e-12);
  REQUIRE(star9.diameter == 2u);
  REQUIRE(star9.bipartite);

  REQUIRE(analyze(hypercube(5)).diameter == 5u);
  REQUIRE(analyze(hypercube(13)).diameter == 13u);
  REQUIRE(analyze(line(7)).diameter == 6u);
  REQUIRE(analyze(graph_of("exponential", 16)).degree_max == 7);
  REQUIRE(analyze(graph_of("complete", 20)).diameter == 1u);
}

TEST_CASE("a disconnected graph has no gap and a consensus factor of 1") {
  const auto graph = Graph::from_edges(5, {{0, 1}, {1, 2}, {2, 0}, {3, 4}, {4, 3}, {4, 4}});
  REQUIRE(graph.edge_count() == 4);
  const auto a = analyze(graph);
  REQUIRE_FALSE(a.connected);
  REQUIRE_FALSE(a.bipartite);
  REQUIRE_FALSE(a.diameter.has_value());
  REQUIRE(near(a.spectral_gap, 0, 1e-12));
  REQUIRE(near(a.consensus_factor, 1, 1e-12));
  REQUIRE(near(a.consensus_bound, 1, 1e-12));
  const auto isolated = analyze(Graph::from_edges(3, {{0, 1}}));
  REQUIRE(near(isolated.consensus_factor, 1, 1e-12));
  REQUIRE(near(analyze(Graph::from_edges(3, {})).spectral_gap, 0, 1e-12));
}

TEST_CASE("Lanczos finds the greatest eigenvalue, or reports that it did not converge") {
  // A diagonal matrix with the eigenvalues -0.9 to 0.99.
  const std::size_t n = 3000;
  const auto apply = [&](std::span<const double> x, std::span<double> out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = x[i] * (-0.9 + 1.89 * static_cast<double>(i) / (n - 1));
  };
  REQUIRE(near(greatest_eigenvalue(apply, std::vector<double>(n, 1.0), 3000), 0.99, 1e-10));
  REQUIRE_FALSE(greatest_eigenvalue(apply, std::vector<double>(n, 1.0), 10).has_value());
}

// A size beyond the dense solvers. A smaller one is sufficient for the slow runs with sanitizers.
constexpr std::uint32_t kMany = kSanitized ? 1000 : 10'000;

TEST_CASE("ten thousand peers of every sparse family have a gap") {
  for (const char* name :
       {"random-regular:k=3", "random-regular:k=4", "random-regular:k=8", "erdos-renyi",
        "small-world:k=4,p=0.1", "small-world:k=4,p=0.01", "tree", "torus", "exponential"}) {
    CAPTURE(name);
    const auto a = analyze(Topology::parse(name)->among(kMany));
    REQUIRE(a.ok());
    REQUIRE(a->diameter.has_value());
    REQUIRE(a->spectral_gap.has_value());
    REQUIRE(a->consensus_bound.has_value());
    // The bound and the gap come from one Laplacian L. With equal degrees, W = I - L / (1 + d) and
    // L_p = 2 L / n d.
    if (a->degree_min == a->degree_max && *a->spectral_gap < 0.5) {
      const double d = a->degree_max;
      REQUIRE(near(1 - *a->consensus_bound, *a->spectral_gap * (1 + d) / d / kMany, 1e-12));
    }
  }
  // The adjacency matrix of a random regular graph has a second eigenvalue near 2 sqrt(k - 1) (Friedman
  // 2008).
  const auto regular = spectral_gap(Topology::parse("random-regular:k=4")->among(kMany));
  REQUIRE(near(regular, 1 - (1 + 2 * std::sqrt(3.0)) / 5, 50.0 / kMany));
}

TEST_CASE("an analysis of ten thousand peers omits only figures that are too expensive", "[figures]") {
  const auto a = analyze(Topology::parse("exponential")->among(10000));
  REQUIRE(a.ok());
  REQUIRE(a->degree_max == 28);
  REQUIRE(a->edges == 140000);
  REQUIRE(a->connected);
  REQUIRE(a->diameter == 6u);
  REQUIRE(a->spectral_gap.has_value());
  REQUIRE(*a->spectral_gap > 0.05);
  REQUIRE(*a->spectral_gap < 0.5);
  REQUIRE_FALSE(a->consensus_factor.has_value());
  REQUIRE(a->consensus_bound.has_value());
  REQUIRE(*a->consensus_bound < 1);
  REQUIRE_FALSE(Graph::of(Topology::parse("complete")->among(20000)).ok());
}

}  // namespace starling::topologies

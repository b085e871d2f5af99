#include "topologies/analysis.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <string>

#include "base/random.h"
#include "tests/catch.h"
#include "topologies/lanczos.h"
#include "topologies/mixing.h"
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

double ring_gap(double n) {
  return 1 - (1.0 / 3 + 2.0 / 3 * std::cos(2 * std::numbers::pi / n));
}

bool near(std::optional<double> value, double expected, double tolerance) {
  UNSCOPED_INFO("value " << (value ? std::to_string(*value) : "none") << ", expected " << expected);
  return value && std::abs(*value - expected) <= tolerance;
}

}  // namespace

TEST_CASE("the complete graph's gap is 1 and its factor (n - 2) / (n - 1)") {
  for (const std::uint32_t n : {3u, 16u, 64u, 200u}) {
    REQUIRE(near(spectral_gap(graph_of("complete", n)), 1, 1e-12));
    REQUIRE(near(consensus_factor(graph_of("complete", n)), (n - 2.0) / (n - 1.0), 1e-9));
  }
}

TEST_CASE("the ring's gap is 1 - (1/3 + 2/3 cos(2 pi / n)), dense and by iteration") {
  for (const std::uint32_t n : {3u, 4u, 16u, 512u})
    REQUIRE(near(spectral_gap(graph_of("ring", n)), ring_gap(n), 1e-12));
  for (const std::uint32_t n : {513u, 2000u})
    REQUIRE(near(spectral_gap(graph_of("ring", n)), ring_gap(n), 1e-5 * ring_gap(n)));
}

TEST_CASE("the hypercube's gap is 2 / (d + 1) and the star's 1 / n") {
  for (const std::uint32_t d : {1u, 2u, 4u, 6u, 10u})
    REQUIRE(near(spectral_gap(hypercube(d)), 2.0 / (d + 1), 1e-9));
  for (const std::uint32_t n : {3u, 16u, 100u}) REQUIRE(near(spectral_gap(star(n)), 1.0 / n, 1e-12));
}

TEST_CASE("pairwise gossip among sixteen contracts as the second moments say, within the bound") {
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
      CHECK(1 - *factor <= 2 * (1 - *bound) + 1e-9);  // the bound misses by up to two times
    }
}

TEST_CASE("simulated exchanges shrink the disagreement at the predicted factor, on unequal degrees too") {
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

TEST_CASE("one node, two nodes and three nodes are ordinary") {
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

TEST_CASE("degrees, edges, diameter and colors of known graphs") {
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

TEST_CASE("a graph in two pieces never agrees") {
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

TEST_CASE("Metropolis-Hastings weights are symmetric, doubly stochastic and never negative") {
  for (const auto& graph : {graph_of("ring", 2), graph_of("ring", 7), graph_of("exponential", 20),
                            graph_of("complete", 9), star(8), line(5), graph_of("uniform", 1)}) {
    const std::size_t n = graph.nodes();
    const auto w = dense(*mixing_matrix(graph, Mixing::metropolis));
    for (std::size_t i = 0; i < n; ++i) {
      double row = 0;
      for (std::size_t j = 0; j < n; ++j) {
        row += w[i * n + j];
        REQUIRE(w[i * n + j] == w[j * n + i]);
        REQUIRE(w[i * n + j] >= -1e-15);
      }
      REQUIRE(std::abs(row - 1) < 1e-12);
    }
  }
  const auto w = dense(*mixing_matrix(star(4), Mixing::metropolis));
  REQUIRE(w[1] == 0.25);  // 1 / (1 + max(3, 1))
  REQUIRE(std::abs(w[5] - 0.75) < 1e-12);
}

TEST_CASE("the sparse product is the dense one") {
  const auto graph = graph_of("exponential", 13);
  const auto w = *mixing_matrix(graph, Mixing::metropolis);
  const auto whole = dense(w);
  Random random(2);
  std::vector<double> x(13), y(13);
  for (double& v : x) v = random.normal();
  multiply(w, x, y);
  for (std::size_t i = 0; i < 13; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 13; ++j) sum += whole[i * 13 + j] * x[j];
    REQUIRE(std::abs(sum - y[i]) < 1e-14);
  }
}

TEST_CASE("Lanczos finds both ends of a known spectrum, and says so when it cannot") {
  // Diagonal, eigenvalues -0.9 to 0.99.
  const std::size_t n = 3000;
  const auto apply = [&](std::span<const double> x, std::span<double> out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = x[i] * (-0.9 + 1.89 * static_cast<double>(i) / (n - 1));
  };
  const auto ends = extreme_eigenvalues(apply, std::vector<double>(n, 1.0), 3000);
  REQUIRE(ends.has_value());
  REQUIRE(std::abs(ends->greatest - 0.99) < 1e-6);
  REQUIRE(std::abs(ends->least + 0.9) < 1e-6);
  REQUIRE_FALSE(extreme_eigenvalues(apply, std::vector<double>(n, 1.0), 10).has_value());
}

TEST_CASE("ten thousand peers are analyzed, as far as figures of that size can be had") {
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

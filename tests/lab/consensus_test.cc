// Measured consensus compared with the prediction from eigenvalues, for every family at several sizes.
#include "lab/measure/consensus.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/seeds.h"
#include "topologies/spectra/analysis.h"

namespace starling::lab {
namespace {

using topologies::Analysis;
using topologies::Topology;

constexpr double kTolerance = 0.1;  // of a rate, the logarithm of a factor

// The families that have a graph for n peers, with default parameters.
std::vector<Topology> families(std::uint32_t n) {
  std::vector<Topology> all;
  for (const auto& entry : topologies::names()) {
    auto topology = Topology::parse(entry.name);
    if (topology && topology->exists(n)) all.push_back(*topology);
  }
  REQUIRE(all.size() >= 3);
  return all;
}

double deviation(double measured, double predicted) { return std::log(measured) / std::log(predicted) - 1; }

// The exact E V after each exchange, relative to the start: the second moments X of the replicas follow
// X <- sum_e p_e W_e X W_e, computed with dense sums.
std::vector<double> expected_curve(const topologies::Graph& graph, std::size_t exchanges) {
  const std::size_t n = graph.nodes();
  std::vector<double> x(n * n, -1 / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) x[i * n + i] += 1;
  std::vector<double> curve{1};
  while (curve.size() <= exchanges) {
    std::vector<double> next(n * n);
    const auto add = [&](std::size_t i, std::size_t j, double p) {
      const auto row = [&](std::size_t r, std::size_t c) {
        return r == i || r == j ? (x[i * n + c] + x[j * n + c]) / 2 : x[r * n + c];
      };
      for (std::size_t r = 0; r < n; ++r)
        for (std::size_t c = 0; c < n; ++c)
          next[r * n + c] += p * (c == i || c == j ? (row(r, i) + row(r, j)) / 2 : row(r, c));
    };
    for (std::uint32_t i = 0; i < n; ++i)
      for (const std::uint32_t j : graph.neighbors(i))
        add(i, j, 1.0 / static_cast<double>(n * graph.degree(i)));
    x.swap(next);
    double trace = 0;
    for (std::size_t i = 0; i < n; ++i) trace += x[i * n + i];
    curve.push_back(trace / static_cast<double>(n - 1));
  }
  return curve;
}

}  // namespace

TEST_CASE("in lock-step every family mixes at the rate of its eigenvalues", "[figures]") {
  for (const std::uint32_t n : {8, 16, 33, 64}) {
    for (const Topology& topology : families(n)) {
      CAPTURE(topology.name(), n);
      const auto schedule = topology.among(n);
      const auto analysis = topologies::analyze(schedule);
      REQUIRE(analysis.ok());
      const auto measured = measure_lock_step(schedule, std::nullopt, n);
      REQUIRE(measured.ok());
      REQUIRE(measured->factor.has_value());
      const std::optional<double> predicted = analysis->round_factor;
      REQUIRE(predicted.has_value());
      if (*measured->factor == 0) {
        CHECK(*predicted == 0);
      } else {
        CHECK(std::abs(deviation(*measured->factor, *predicted)) < kTolerance);
      }
      CHECK(measured->exact_after.has_value() == (*measured->factor == 0));
    }
  }
}

TEST_CASE("lock-step on a ring and on the complete graph decays as in the closed forms") {
  const auto ring = measure_lock_step(Topology::parse("ring")->among(16), std::nullopt, 1);
  REQUIRE(ring.ok());
  const double second = (1 + 2 * std::cos(2 * std::acos(-1.0) / 16)) / 3;
  CHECK(*ring->factor == Approx(second * second).epsilon(1e-4));
  CHECK_FALSE(ring->exact_after.has_value());
  const auto lazy = measure_lock_step(Topology::parse("ring")->among(16), topologies::Mixing::lazy, 1);
  CHECK(*lazy->factor == Approx(std::pow((1 + second) / 2, 2)).epsilon(1e-4));
  // On a regular graph, splitting evenly among three gives the same matrix.
  const auto push = measure_lock_step(Topology::parse("ring")->among(16), topologies::Mixing::push_sum, 1);
  CHECK(*push->factor == Approx(*ring->factor).epsilon(1e-9));
  const auto complete = measure_lock_step(Topology::parse("complete")->among(33), std::nullopt, 1);
  CHECK(complete->exact_after == 1);
  CHECK(complete->factor == 0.0);
  CHECK(complete->period_error < 1e-13);
}

TEST_CASE("finite-time families reach the mean after a period, up to rounding") {
  const auto exact = [](const std::string& name, std::uint32_t n) {
    const auto topology = Topology::parse(name);
    if (!topology) return;  // a build without this family
    CAPTURE(name, n);
    const auto schedule = topology->among(n);
    const auto measured = measure_lock_step(schedule, std::nullopt, n);
    REQUIRE(measured.ok());
    REQUIRE(measured->exact_after.has_value());
    CHECK(*measured->exact_after <= schedule.period());
    CHECK(measured->period_error < 1e-13);
  };
  for (const std::uint32_t n : {2, 4, 8, 16, 32, 64, 128}) exact("one-peer-exponential", n);
  for (const char* name : {"base:k=1", "base:k=2", "base:k=3"})
    for (std::uint32_t n = 2; n <= 40; ++n) exact(name, n);
}

TEST_CASE("asynchronous pairwise gossip of every family mixes at the rate of its second moments",
          "[figures]") {
  for (const std::uint32_t n : {8, 16, 33, 64}) {
    if (n > 16 && !all_seeds()) continue;  // minutes
    std::uint64_t number = n / 8;
    for (const Topology& topology : families(n)) {
      if (!is_turn_of(number++, 4)) continue;
      CAPTURE(topology.name(), n);
      const auto analysis = topologies::analyze(topology.among(n));
      REQUIRE(analysis.ok());
      REQUIRE(analysis->consensus_factor.has_value());
      PairwiseOptions options;
      options.seed = n;
      options.seeds = n <= 16 ? 12 : n <= 33 ? 6 : 4;
      if (topology.name() == "dumbbell" && n <= 33)
        options.seeds = 40;  // V depends on one link and varies much
      const auto measured = measure_pairwise(topology, n, options);
      CHECK(measured.factor.has_value());
      if (!measured.factor) continue;
      CAPTURE(*measured.factor, *analysis->consensus_factor, measured.rate_error);
      CHECK(std::abs(deviation(*measured.factor, *analysis->consensus_factor)) < kTolerance);
    }
  }
}

TEST_CASE("partners in turn mix faster than random partners", "[figures]") {
  PairwiseOptions options;
  options.seeds = 4;
  for (const char* name : {"ring", "exponential", "one-peer-exponential"}) {
    CAPTURE(name);
    const auto topology = *Topology::parse(name);
    options.partners = Partners::uniform;
    const auto uniform = measure_pairwise(topology, 16, options);
    options.partners = Partners::turns;
    const auto turns = measure_pairwise(topology, 16, options);
    CHECK(std::log(*turns.factor) < 1.1 * std::log(*uniform.factor));
  }
}

TEST_CASE("the whole curve of asynchronous gossip equals the expected one", "[figures]") {
  for (const char* name : {"ring", "exponential"}) {
    CAPTURE(name);
    const auto topology = *Topology::parse(name);
    PairwiseOptions options;
    const auto measured = measure_pairwise(topology, 12, options);
    const auto graph = topologies::Graph::of_period(topology.among(12));
    const auto expected = expected_curve(*graph, measured.exchanges.back());
    for (std::size_t p = 0; p < measured.v.size(); ++p) {
      const double v = expected[measured.exchanges[p]];
      if (v < 1e-4) break;  // below, the error of the mean over seeds is larger than the difference
      CAPTURE(p, measured.v[p], v);
      CHECK(std::abs(std::log(measured.v[p] / v)) < 0.15);
    }
  }
}

TEST_CASE("a measurement does not depend on the number of threads") {
  const auto topology = *Topology::parse("exponential");
  PairwiseOptions options;
  options.seeds = 5;
  options.threads = 1;
  const auto one = measure_pairwise(topology, 8, options);
  options.threads = 3;
  double told = 0;
  options.progress = [&told](double done) { told = done; };
  const auto three = measure_pairwise(topology, 8, options);
  CHECK(told == 1);
  CHECK(one.v == three.v);
  CHECK(one.factor == three.factor);
  options.seed = 2;
  CHECK(measure_pairwise(topology, 8, options).v != one.v);
}

TEST_CASE("a measurement that is interrupted has no factor") {
  PairwiseOptions options;
  options.interrupted = [] { return true; };
  CHECK_FALSE(measure_pairwise(*Topology::parse("ring"), 8, options).factor.has_value());
}

}  // namespace starling::lab

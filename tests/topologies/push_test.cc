#include <Eigen/Eigenvalues>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "tests/topologies/near.h"
#include "topologies/spectra/analysis.h"
#include "topologies/topology.h"

namespace starling::topologies {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

Schedule schedule_of(const std::string& name, std::uint32_t n) { return Topology::parse(name)->among(n); }

// The map M -> sum_a p_a K_a M K_a' on the projected matrices, as an explicit matrix of [n^2, n^2].
double dense_push_factor(std::uint32_t nodes, const std::vector<PushClock>& clocks) {
  const Index n = nodes;
  const MatrixXd project = MatrixXd::Identity(n, n).array() - 1.0 / static_cast<double>(n);
  MatrixXd map = MatrixXd::Zero(n * n, n * n);
  for (const PushClock& clock : clocks) {
    MatrixXd k = MatrixXd::Identity(n, n);
    k(clock.from, clock.from) = k(clock.to, clock.from) = 0.5;
    const MatrixXd kept = project * k * project;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) map.block(i * n, j * n, n, n) += clock.probability * kept(i, j) * kept;
  }
  return Eigen::EigenSolver<MatrixXd>(map, false).eigenvalues().cwiseAbs().maxCoeff();
}

}  // namespace

TEST_CASE("the complete graph's push factor is 1 - (n + 1) / (2n (n - 1))") {
  for (const std::uint32_t n : {2u, 3u, 8u, 64u}) {
    const auto clocks = push_clocks(schedule_of("complete", n));
    REQUIRE(clocks.ok());
    CHECK(clocks->size() == n * (n - 1));
    CHECK(near(push_factor(n, *clocks), 1 - (n + 1.0) / (2.0 * n * (n - 1)), 1e-9));
  }
  CHECK(push_factor(1, {}) == 0);
  CHECK(push_factor(3, {}) == 1);  // no peer sends
  CHECK_FALSE(push_factor(kPushNodesMax + 1, {}).has_value());
}

TEST_CASE("push clocks add up to 1 over all rounds of a period, and follow the links' direction") {
  for (const char* name : {"ring", "star", "directed-exponential", "one-peer-exponential", "base:k=1"}) {
    CAPTURE(name);
    const auto clocks = push_clocks(schedule_of(name, 10));
    REQUIRE(clocks.ok());
    double sum = 0;
    for (const PushClock& clock : *clocks) sum += clock.probability;
    CHECK(std::abs(sum - 1) < 1e-12);
  }
  // Each peer sends only to the peers 1, 2 and 4 places after it.
  const auto directed = push_clocks(schedule_of("directed-exponential", 8));
  REQUIRE(directed->size() == 24);
  CHECK((*directed)[0].from == 0);
  CHECK((*directed)[0].to == 1);
  CHECK((*directed)[2].to == 4);
}

TEST_CASE("the push factor is the greatest eigenvalue of the explicit second-moment map") {
  for (const char* name : {"ring", "line", "star", "tree", "exponential", "random-regular:k=3",
                           "directed-exponential", "one-peer-exponential", "base:k=1"}) {
    for (const std::uint32_t n : {4u, 10u}) {
      CAPTURE(name, n);
      const auto clocks = *push_clocks(schedule_of(name, n));
      const double expected = dense_push_factor(n, clocks);
      CHECK(near(push_factor(n, clocks), expected, 1e-6 * (1 - expected)));
    }
  }
}

TEST_CASE("graphs of 64 peers have a push factor, and it is larger than that of exchanges") {
  for (const char* name : {"line", "ring", "torus", "exponential"}) {
    CAPTURE(name);
    const Schedule schedule = schedule_of(name, 64);
    const auto pushes = push_factor(64, *push_clocks(schedule));
    const auto exchanges = consensus_factor(64, *edge_clocks(schedule));
    REQUIRE(pushes.has_value());
    CHECK(*pushes < 1);
    CHECK(*pushes > *exchanges);
    CHECK(1 - *pushes > 0.2 * (1 - *exchanges));
  }
}

TEST_CASE("simulated pushes shrink the disagreement at the predicted factor") {
  for (const char* name : {"ring", "directed-exponential"}) {
    const std::uint32_t n = 8;
    const auto clocks = *push_clocks(schedule_of(name, n));
    const double expected = *push_factor(n, clocks);
    const int runs = 6000, early = static_cast<int>(3 / (1 - expected)), late = 2 * early;
    Random random(5);
    double at_early = 0, at_late = 0;
    for (int run = 0; run < runs; ++run) {
      std::vector<double> x(n), u(n, 1.0);
      double mean = 0;
      for (double& v : x) mean += (v = random.normal()) / n;
      for (double& v : x) v -= mean;
      for (int t = 1; t <= late; ++t) {
        double drawn = random.uniform();
        std::size_t k = 0;
        while (k + 1 < clocks.size() && drawn >= clocks[k].probability) drawn -= clocks[k++].probability;
        const auto [i, j, p] = clocks[k];
        u[i] /= 2;
        x[j] += u[i] / (u[i] + u[j]) * (x[i] - x[j]);
        u[j] += u[i];
        if (t != early && t != late) continue;
        for (const double v : x) (t == early ? at_early : at_late) += v * v;
      }
    }
    // The tolerance is relative to the rate, the logarithm of the factor.
    CAPTURE(name, expected);
    const double measured = std::log(at_late / at_early) / (late - early);
    CHECK(std::abs(measured / std::log(expected) - 1) < 0.08);
  }
}

TEST_CASE("round_factor() equals the round factor of a complete analysis") {
  for (const char* name : {"ring", "exponential", "one-peer-exponential", "complete", "base:k=1"}) {
    CAPTURE(name);
    const Schedule schedule = schedule_of(name, 12);
    const auto all = analyze(schedule);
    REQUIRE(all.ok());
    CHECK(round_factor(schedule) == all->round_factor);
  }
}

}  // namespace starling::topologies

// The eigenvalue questions of topologies/analysis.h.
#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "topologies/analysis.h"
#include "topologies/lanczos.h"
#include "topologies/mixing.h"

namespace starling::topologies {
namespace {

constexpr std::uint32_t kDenseNodesMax = 512;
constexpr double kWorkMax = 3e9;  // multiplications that an iteration may cost in all
constexpr int kStepsMax = 30'000;

int steps_within_budget(double work_per_step) {
  return static_cast<int>(
      std::clamp(kWorkMax / std::max(1.0, work_per_step), 16.0, static_cast<double>(kStepsMax)));
}

void subtract_mean(std::span<double> x) {
  double sum = 0;
  for (const double v : x) sum += v;
  for (double& v : x) v -= sum / static_cast<double>(x.size());
}

// The ends of a symmetric, doubly stochastic matrix's spectrum, without the eigenvalue 1 of the vector of
// ones.
std::optional<Extremes> disagreement_spectrum(const MixingMatrix& w) {
  const std::size_t n = w.nodes();
  if (n <= kDenseNodesMax) {
    const auto matrix = dense(w);
    const auto size = static_cast<Eigen::Index>(n);
    Eigen::MatrixXd m = Eigen::Map<const Eigen::MatrixXd>(matrix.data(), size, size);
    // Moves the vector of ones from eigenvalue 1 to -2, out of the way: all others lie in [-1, 1].
    m.array() -= 3.0 / static_cast<double>(n);
    const Eigen::VectorXd values =
        Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(m, Eigen::EigenvaluesOnly).eigenvalues();
    return Extremes{values[1], values[size - 1]};
  }
  Random random(1);
  std::vector<double> start(n);
  for (double& v : start) v = random.normal();
  subtract_mean(start);
  const auto apply = [&](std::span<const double> x, std::span<double> out) {
    multiply(w, x, out);
    subtract_mean(out);
  };
  const double work = static_cast<double>(w.from.size() + 10 * n);
  return extreme_eigenvalues(apply, std::move(start), steps_within_budget(work));
}

// (1/d_i + 1/d_j) / n.
double edge_probability(const Graph& graph, std::uint32_t i, std::uint32_t j) {
  return (1.0 / graph.degree(i) + 1.0 / graph.degree(j)) / graph.nodes();
}

// m := P m P with P = I - 11'/n, for m symmetric [n, n].
void project(std::span<double> m, std::size_t n) {
  std::vector<double> means(n);
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += m[i * n + j];
    means[i] = sum / static_cast<double>(n);
    mean += means[i] / static_cast<double>(n);
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) m[i * n + j] += mean - means[i] - means[j];
}

}  // namespace

std::optional<double> spectral_gap(const Graph& graph) {
  if (graph.nodes() <= 1) return 1;
  const auto ends = disagreement_spectrum(*mixing_matrix(graph, Mixing::metropolis));
  if (!ends) return std::nullopt;
  return std::clamp(1 - std::max(std::abs(ends->least), std::abs(ends->greatest)), 0.0, 1.0);
}

std::optional<double> spectral_gap(const Schedule& schedule) {
  if (schedule.period() != 1 || schedule.directed()) return std::nullopt;
  const auto graph = Graph::of(schedule);
  return graph ? spectral_gap(*graph) : std::nullopt;
}

std::optional<double> consensus_factor(const Graph& graph) {
  const std::size_t n = graph.nodes();
  if (n > kFactorNodesMax) return std::nullopt;
  if (n <= 1) return 0;

  struct Edge {
    std::size_t i, j;
    double p;
  };
  std::vector<Edge> edges;
  graph.for_each_edge([&](std::uint32_t i, std::uint32_t j) {
    edges.push_back({i, j, edge_probability(graph, i, j)});
  });

  // W = I - u u'/2 with u = e_i - e_j, so W m W = m - (u v' + v u')/2 + (u'v) u u'/4 with v = m u: two rows
  // and two columns change. Collecting u v' alone and adding its transpose in the end halves the work.
  std::vector<double> rows(n * n);
  const auto apply = [&](std::span<const double> m, std::span<double> out) {
    std::fill(rows.begin(), rows.end(), 0.0);
    for (const Edge& e : edges) {
      const double* mi = m.data() + e.i * n;
      const double* mj = m.data() + e.j * n;
      double* ri = rows.data() + e.i * n;
      double* rj = rows.data() + e.j * n;
      const double half = e.p / 2;
      for (std::size_t k = 0; k < n; ++k) {
        const double v = half * (mi[k] - mj[k]);
        ri[k] -= v;
        rj[k] += v;
      }
      const double square = e.p / 8 * ((mi[e.i] - mj[e.i]) - (mi[e.j] - mj[e.j]));  // half, for the transpose
      ri[e.i] += square;
      rj[e.j] += square;
      ri[e.j] -= square;
      rj[e.i] -= square;
    }
    // The m that each edge's p W m W begins with, and what initiators without a partner leave as it is, add
    // up to m; its halves keep the result symmetric to the last bit, or rounding would feed an antisymmetric
    // part at rate 1.
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        const std::size_t ab = a * n + b, ba = b * n + a;
        out[ab] = 0.5 * (m[ab] + m[ba]) + rows[ab] + rows[ba];
      }
    }
    project(out, n);
  };
  // The map takes positive semidefinite matrices to such, so its greatest eigenvalue has such an eigenvector,
  // and the start P = I - 11'/n, inside that cone, is not orthogonal to it.
  std::vector<double> start(n * n, -1.0 / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) start[i * n + i] += 1;
  const double work = static_cast<double>(edges.size() * n * 5 + n * n * 12);
  const auto ends = extreme_eigenvalues(apply, std::move(start), steps_within_budget(work));
  if (!ends) return std::nullopt;
  return std::clamp(ends->greatest, 0.0, 1.0);
}

std::optional<double> consensus_bound(const Graph& graph) {
  const std::uint32_t n = graph.nodes();
  if (n <= 1) return 0;
  // I - L_p / 2, which is E[W]: symmetric and doubly stochastic.
  MixingMatrix w;
  for (std::uint32_t i = 0; i < n; ++i) {
    std::size_t own = 0;
    double kept = 1;
    const auto push = [&](std::uint32_t from, double weight) {
      w.from.push_back(from);
      w.weight.push_back(weight);
    };
    bool placed = false;
    for (const std::uint32_t j : graph.neighbors(i)) {
      if (!placed && j > i) {
        own = w.from.size();
        push(i, 0);
        placed = true;
      }
      const double half = edge_probability(graph, i, j) / 2;
      push(j, half);
      kept -= half;
    }
    if (!placed) {
      own = w.from.size();
      push(i, 0);
    }
    w.weight[own] = kept;
    w.begin.push_back(w.from.size());
  }
  const auto ends = disagreement_spectrum(w);
  if (!ends) return std::nullopt;
  return std::clamp(ends->greatest, 0.0, 1.0);
}

}  // namespace starling::topologies

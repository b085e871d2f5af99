// Asynchronous pairwise gossip, as topologies/spectra/analysis.h describes it: the edge clocks, and the
// factor by which an exchange reduces the disagreement.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "topologies/spectra/analysis.h"
#include "topologies/spectra/lanczos.h"
#include "topologies/spectra/spectrum.h"

namespace starling::topologies {
namespace {

constexpr std::size_t kClocksMax = std::size_t{1} << 26;
constexpr double kWorkMax = 3e9;  // multiplications of the whole iteration

// Adds the clocks of a peer's links in one round, given that it begins with probability `begins`.
void add_clocks(std::uint32_t peer, const Links& links, bool relative, double begins,
                std::vector<EdgeClock>& to) {
  double sum = 0;
  for (const Link& link : links) sum += relative ? link.weight : 1;
  for (const Link& link : links)
    to.push_back(
        {std::min(peer, link.peer), std::max(peer, link.peer), begins * (relative ? link.weight : 1) / sum});
}

// Sorts the clocks and adds up the clocks of equal pairs.
std::vector<EdgeClock> merged(std::vector<EdgeClock> clocks) {
  const auto pair = [](const EdgeClock& clock) { return std::pair(clock.i, clock.j); };
  std::sort(clocks.begin(), clocks.end(),
            [&](const EdgeClock& a, const EdgeClock& b) { return pair(a) < pair(b); });
  std::size_t last = 0;
  for (std::size_t k = 1; k < clocks.size(); ++k) {
    if (pair(clocks[k]) == pair(clocks[last]))
      clocks[last].probability += clocks[k].probability;
    else
      clocks[++last] = clocks[k];
  }
  if (!clocks.empty()) clocks.resize(last + 1);
  return clocks;
}

// E[W] = I - L_p / 2: symmetric and doubly stochastic. The clocks are sorted by (i, j), so each row is filled
// in order: entries below the diagonal, the diagonal, entries above it.
MixingMatrix expected_mixing(std::uint32_t nodes, std::span<const EdgeClock> clocks) {
  MixingMatrix w;
  w.begin.assign(std::size_t{nodes} + 1, 0);
  std::vector<double> kept(nodes, 1);
  for (const EdgeClock& e : clocks) {
    ++w.begin[e.i + 1];
    ++w.begin[e.j + 1];
    kept[e.i] -= e.probability / 2;
    kept[e.j] -= e.probability / 2;
  }
  for (std::size_t i = 0; i < nodes; ++i) w.begin[i + 1] += w.begin[i] + 1;
  w.from.resize(w.begin[nodes]);
  w.weight.resize(w.begin[nodes]);
  std::vector<std::size_t> next(w.begin.begin(), w.begin.end() - 1);
  const auto place = [&](std::uint32_t row, std::uint32_t from, double weight) {
    w.from[next[row]] = from;
    w.weight[next[row]++] = weight;
  };
  auto clock = clocks.begin();
  for (std::uint32_t i = 0; i < nodes; ++i) {
    place(i, i, kept[i]);
    for (; clock != clocks.end() && clock->i == i; ++clock) {
      place(i, clock->j, clock->probability / 2);
      place(clock->j, i, clock->probability / 2);
    }
  }
  return w;
}

// The map T: M -> sum_e p_e W_e M W_e (M stays if no edge is drawn), on symmetric matrices [n, n] as vectors.
// It is close to the identity, so I - (I - T) / scale is iterated, with the scale that spreads its
// eigenvalues over [0, 1]: the largest of I - T is at most the largest of M -> (L_p M + M L_p) / 2, so at
// most twice the greatest rate of a node. Results are exactly symmetric: an antisymmetric part has another
// map than the one that the recurrence assumes, and Lanczos would amplify it. Matrices along the vector of
// ones are projected out: P . P with P = I - 11'/n.
class SecondMoments {
 public:
  SecondMoments(std::size_t n, std::span<const EdgeClock> clocks)
      : n_(n), clocks_(clocks), rows_(n * n), means_(n) {
    std::vector<double> rate(n);
    for (const EdgeClock& e : clocks) {
      rate[e.i] += e.probability;
      rate[e.j] += e.probability;
    }
    scale_ = 2 * *std::max_element(rate.begin(), rate.end());
  }

  double scale() const { return scale_; }

  // W = I - u u'/2 with u = e_i - e_j, so W m W = m - (u v' + v u')/2 + (u'v) u u'/4 with v = m u: two rows
  // and two columns change. Only u v' is summed up and its transpose is added at the end: half of the work.
  void apply(const double* m, double* out) {
    std::fill(rows_.begin(), rows_.end(), 0.0);
    for (const EdgeClock& e : clocks_) {
      const double* mi = m + e.i * n_;
      const double* mj = m + e.j * n_;
      double* ri = rows_.data() + e.i * n_;
      double* rj = rows_.data() + e.j * n_;
      const double half = e.probability / 2;
      for (std::size_t k = 0; k < n_; ++k) {
        const double v = half * (mi[k] - mj[k]);
        ri[k] -= v;
        rj[k] += v;
      }
      const double square =  // half of it, for the transpose
          e.probability / 8 * ((mi[e.i] - mj[e.i]) - (mi[e.j] - mj[e.j]));
      ri[e.i] += square;
      rj[e.j] += square;
      ri[e.j] -= square;
      rj[e.i] -= square;
    }
    double mean = 0;
    for (std::size_t a = 0; a < n_; ++a) {
      double sum = 0;
      for (std::size_t b = 0; b < n_; ++b) {
        const std::size_t ab = a * n_ + b, ba = b * n_ + a;
        out[ab] = m[ab] + (rows_[ab] + rows_[ba]) / scale_;
        sum += out[ab];
      }
      means_[a] = sum / static_cast<double>(n_);
      mean += means_[a] / static_cast<double>(n_);
    }
    for (std::size_t a = 0; a < n_; ++a)
      for (std::size_t b = 0; b < n_; ++b) out[a * n_ + b] += mean - (means_[a] + means_[b]);
  }

 private:
  std::size_t n_;
  std::span<const EdgeClock> clocks_;
  double scale_ = 0;
  std::vector<double> rows_, means_;  // scratch
};

}  // namespace

Result<std::vector<EdgeClock>> edge_clocks(const Schedule& schedule) {
  if (schedule.period() == 1) {
    const auto graph = Graph::of(schedule);
    if (!graph) return graph.error();
    return edge_clocks(*graph);
  }
  const bool relative = schedule.weights() == Weights::relative;
  std::vector<EdgeClock> clocks;
  std::vector<Links> rounds;
  for (std::uint32_t peer = 0; peer < schedule.peers(); ++peer) {
    rounds.clear();
    for (std::uint64_t round = 0; round < schedule.period(); ++round) {
      auto links = schedule.links(peer, round);
      if (!links.empty()) rounds.push_back(std::move(links));
    }
    const double begins = 1.0 / static_cast<double>(schedule.peers()) / static_cast<double>(rounds.size());
    for (const Links& links : rounds) add_clocks(peer, links, relative, begins, clocks);
    if (clocks.size() > kClocksMax)
      return Error{"a schedule among " + std::to_string(schedule.peers()) +
                   " peers has too many links to compute edge clocks; expected at most " +
                   std::to_string(kClocksMax)};
  }
  return merged(std::move(clocks));
}

std::vector<EdgeClock> edge_clocks(const Graph& graph) {
  const bool relative = graph.weights_kind() == Weights::relative;
  std::vector<EdgeClock> clocks;
  clocks.reserve(graph.edge_count());
  if (graph.directed()) {
    Links links;
    for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
      links.clear();
      for (std::size_t k = 0; k < graph.degree(i); ++k)
        links.push_back({graph.neighbors(i)[k], relative ? graph.weights(i)[k] : 1});
      add_clocks(i, links, relative, 1.0 / graph.nodes(), clocks);
    }
    return merged(std::move(clocks));
  }
  // The clock of an undirected edge follows from the strengths of its two ends.
  std::vector<double> strength(graph.nodes());
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
    const auto weights = graph.weights(i);
    strength[i] = relative ? std::accumulate(weights.begin(), weights.end(), 0.0) : graph.degree(i);
  }
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
    for (std::size_t k = 0; k < graph.degree(i); ++k) {
      const std::uint32_t j = graph.neighbors(i)[k];
      const double weight = relative ? graph.weights(i)[k] : 1;
      if (i < j) clocks.push_back({i, j, weight * (1 / strength[i] + 1 / strength[j]) / graph.nodes()});
    }
  }
  return clocks;
}

std::optional<double> consensus_factor(std::uint32_t nodes, std::span<const EdgeClock> clocks) {
  if (nodes > kFactorNodesMax) return std::nullopt;
  if (nodes <= 1) return 0;
  const std::size_t n = nodes;
  SecondMoments map(n, clocks);
  if (map.scale() <= 0) return 1;  // no exchanges
  // The map preserves the cone of positive semidefinite matrices, so its greatest eigenvalue has an
  // eigenvector there, and the start P, inside that cone, is not orthogonal to it.
  std::vector<double> start(n * n, -1.0 / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) start[i * n + i] += 1;
  const double work = static_cast<double>(5 * clocks.size() * n + 12 * n * n);
  const auto greatest =
      greatest_eigenvalue([&](auto m, auto out) { map.apply(m.data(), out.data()); }, std::move(start),
                          static_cast<int>(std::clamp(kWorkMax / work, 16.0, 30'000.0)));
  if (!greatest) return std::nullopt;
  return std::clamp(1 - map.scale() * (1 - *greatest), 0.0, 1.0);
}

std::optional<double> consensus_factor(const Graph& graph) {
  if (graph.nodes() > kFactorNodesMax) return std::nullopt;
  return consensus_factor(graph.nodes(), edge_clocks(graph));
}

std::optional<double> consensus_bound(std::uint32_t nodes, std::span<const EdgeClock> clocks) {
  const auto distances = symmetric_distances(expected_mixing(nodes, clocks));
  if (!distances) return std::nullopt;
  return nodes <= 1 ? 0 : std::clamp(1 - distances->least, 0.0, 1.0);
}

std::optional<double> consensus_bound(const Graph& graph) {
  return consensus_bound(graph.nodes(), edge_clocks(graph));
}

}  // namespace starling::topologies

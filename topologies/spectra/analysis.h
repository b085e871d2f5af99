// Properties of a graph for gossip: its shape, how fast lock-step rounds mix on it (the spectral gap), and
// how fast asynchronous pairwise gossip does (the factor by which an exchange reduces the disagreement).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topologies/graph.h"
#include "topologies/spectra/mixing.h"

namespace starling::topologies {

struct Analysis {
  // The graph of all links of a period.
  std::uint32_t nodes = 0;
  std::size_t edges = 0;  // arcs, if it is directed
  bool directed = false;
  std::uint32_t degree_min = 0, degree_max = 0;  // outgoing links of a node
  double degree_mean = 0;
  bool connected = true;                  // every node reaches every other along the arcs
  bool bipartite = false;                 // two colors suffice (a graph without edges is bipartite)
  std::optional<std::uint32_t> diameter;  // none if it is not connected or too large to search

  // Lock-step rounds of x <- W x with the matrix of `mixing`.
  std::uint64_t period = 1;
  double sends_per_round = 0;  // of one peer to others, mean over the peers and the period
  Mixing mixing = Mixing::metropolis;
  // Whether the peers converge to their mean: every W is doubly stochastic, or push-sum's quotients are read.
  bool mean_preserved = true;
  // 1 - second-largest modulus, in 12 digits; none if the schedule varies in time or the iteration did not
  // converge.
  std::optional<double> spectral_gap;
  // Of V = sum |x_i - mean|^2, per round, in the long run; 0 if all agree exactly after a period.
  std::optional<double> round_factor;
  // Reduce the disagreement sqrt(V) tenfold; exact_after, if exact.
  std::optional<double> rounds_to_tenth;
  std::optional<std::uint64_t> exact_after;  // rounds (a period) after which all agree to rounding

  // Asynchronous pairwise gossip: random initiators, partners drawn among their links.
  std::optional<double> consensus_factor;    // of V, mean per exchange; up to 256 nodes
  std::optional<double> consensus_bound;     // upper bound of consensus_factor; any size
  std::optional<double> exchanges_to_tenth;  // begun by one peer, that reduce sqrt(V) tenfold
};

// Analyzes a graph that does not vary, with its default mixing.
Analysis analyze(const Graph& graph);
// Analyzes a schedule, with its default mixing if `mixing` has no value. An Error if the schedule is too
// large or has no matrix of `mixing`.
Result<Analysis> analyze(const Schedule& schedule, std::optional<Mixing> mixing = std::nullopt);

// 1 - the second-largest modulus of the eigenvalues of the schedule's default mixing matrix, in 12 digits; 1
// for a single node. nullopt if the schedule varies in time or is too large, or the iteration does not
// converge.
std::optional<double> spectral_gap(const Schedule& schedule);
std::optional<double> spectral_gap(const Graph& graph);

// Only Analysis::round_factor. nullopt also if the schedule is too large.
std::optional<double> round_factor(const Schedule& schedule);

// Random pairwise gossip: at each event a peer, drawn uniformly, begins in a round of the period, drawn
// uniformly from those in which it has links; its partner is drawn among those links, by weight if weights
// are relative; and both take their mean (Boyd et al., "Randomized gossip algorithms", IEEE Trans.
// Information Theory 52, 2006, section II). An edge clock is the probability that these two meet: (1/d_i +
// 1/d_j)/n in a static graph without weights. An event of a peer without links has no effect.
struct EdgeClock {
  std::uint32_t i, j;  // i < j
  double probability;
};
// Sorted, each pair once. An Error if the schedule has too many links.
Result<std::vector<EdgeClock>> edge_clocks(const Schedule& schedule);
std::vector<EdgeClock> edge_clocks(const Graph& graph);

// The spectral radius of M -> sum_e p_e W_e M W_e (W_e averages the two ends of e; without an edge, M stays)
// on the matrices that vanish on the vector of ones: the second moments. nullopt for more than
// kFactorNodesMax nodes.
inline constexpr std::uint32_t kFactorNodesMax = 256;
std::optional<double> consensus_factor(std::uint32_t nodes, std::span<const EdgeClock> clocks);
std::optional<double> consensus_factor(const Graph& graph);

// 1 - lambda_2(L_p) / 2, L_p the Laplacian weighted by p: E[W] bounds the second moments.
std::optional<double> consensus_bound(std::uint32_t nodes, std::span<const EdgeClock> clocks);
std::optional<double> consensus_bound(const Graph& graph);

// Random push-sum gossip: at each event a peer, drawn uniformly, sends half of its weight u and of u x to a
// partner drawn among its links as above, along their direction. A push clock is the probability of one pair.
struct PushClock {
  std::uint32_t from, to;
  double probability;
};
// Sorted, each pair of ends once. An Error if the schedule has too many links.
Result<std::vector<PushClock>> push_clocks(const Schedule& schedule);

// The mean factor per event, in the long run, of sum u_i^2 (x_i - mean)^2, which bounds V = sum (x_i -
// mean)^2 up to the square of the least weight (Iutzeler, Ciblat & Hachem, "Analysis of sum-weight-like
// algorithms for averaging in wireless sensor networks", IEEE Trans. Signal Processing 61, 2013); in
// measurements V follows it. It is the spectral radius of M -> sum_a p_a K_a M K_a' on the matrices that
// vanish on the vector of ones. nullopt for more than kPushNodesMax nodes.
inline constexpr std::uint32_t kPushNodesMax = 64;
std::optional<double> push_factor(std::uint32_t nodes, std::span<const PushClock> clocks);

}  // namespace starling::topologies

// What a graph is worth for gossip: its shape, how fast a lock-step round mixes on it (the spectral gap), and
// how fast asynchronous pairwise gossip does (the factor by which an exchange shrinks the disagreement). For
// `topology show`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "topologies/graph.h"
#include "topologies/mixing.h"

namespace starling::topologies {

struct Analysis {
  // The graph of all links of a period.
  std::uint32_t nodes = 0;
  std::size_t edges = 0;  // arcs, where it is directed
  bool directed = false;
  std::uint32_t degree_min = 0, degree_max = 0;  // of links out of a node
  double degree_mean = 0;
  bool connected = true;                  // every node reaches every other, along the arcs
  bool bipartite = false;                 // two colors suffice (a graph without edges is bipartite)
  std::optional<std::uint32_t> diameter;  // none where it is not connected, or too large to search

  // Lock-step rounds of x <- W x with the matrix of `mixing`.
  std::uint64_t period = 1;
  double sends_per_round = 0;  // of one peer to others, in the mean over peers and the period
  Mixing mixing = Mixing::metropolis;
  bool mean_preserved = true;  // the peers meet at their mean: every round's W is doubly stochastic, or
                               // push-sum's quotients are read
  std::optional<double> spectral_gap;  // 1 - second-largest modulus; none where it varies in time, or did not
                                       // converge
  std::optional<double> round_factor;  // of V = sum |x_i - mean|^2, per round, in the long run; 0 where all
                                       // agree exactly after a period
  std::optional<double>
      rounds_to_tenth;  // that shrink the disagreement sqrt(V) tenfold; exact_after, if exact
  std::optional<std::uint64_t> exact_after;  // rounds (a period) after which all agree to rounding

  // Asynchronous pairwise gossip: initiators at random, partners drawn among their links.
  std::optional<double> consensus_factor;    // of V, per exchange, in the mean; up to 256 nodes
  std::optional<double> consensus_bound;     // consensus_factor is at most this; any size
  std::optional<double> exchanges_to_tenth;  // begun by one peer, that shrink sqrt(V) tenfold
};

// Of a graph that does not vary, with its default mixing: metropolis weights, or push-sum's where it is
// directed.
Analysis analyze(const Graph& graph);
// Of a schedule. `mixing` without a value: the schedule's default. An Error where the schedule is too large
// to be looked at, or where `mixing` has no matrix for it.
Result<Analysis> analyze(const Schedule& schedule, std::optional<Mixing> mixing = std::nullopt);

// 1 - the second-largest modulus of the eigenvalues of the schedule's default mixing matrix; 1 for a single
// node. nullopt where the schedule varies in time, is too large, or the iteration does not converge.
std::optional<double> spectral_gap(const Schedule& schedule);
std::optional<double> spectral_gap(const Graph& graph);

// Analysis::round_factor alone. nullopt also where the schedule is too large to be looked at.
std::optional<double> round_factor(const Schedule& schedule);

// Pairwise gossip at random: at each event one peer begins, each as often as any other, in any round of the
// period in which it has links, each as often as any other; its partner is drawn among those links, by their
// weight where weights are relative; and both take their mean (Boyd et al., "Randomized gossip algorithms",
// IEEE Trans. Information Theory 52, 2006, section II). An edge clock is how probable it is that the two
// meet, whoever begins: (1/d_i + 1/d_j)/n in a static graph without weights. A peer without any link begins
// in vain.
struct EdgeClock {
  std::uint32_t i, j;  // i < j
  double probability;
};
// Sorted, each pair once. An Error where the schedule has too many links to be looked at.
Result<std::vector<EdgeClock>> edge_clocks(const Schedule& schedule);
std::vector<EdgeClock> edge_clocks(const Graph& graph);

// The spectral radius of M -> sum_e p_e W_e M W_e (W_e averages the two ends of e, and nothing happens where
// no edge is drawn) on the matrices that vanish on the vector of ones: the second moments. For at most
// kFactorNodesMax nodes, or nullopt.
inline constexpr std::uint32_t kFactorNodesMax = 256;
std::optional<double> consensus_factor(std::uint32_t nodes, std::span<const EdgeClock> clocks);
std::optional<double> consensus_factor(const Graph& graph);

// 1 - lambda_2(L_p) / 2, L_p the Laplacian weighted by p: E[W] bounds the second moments.
std::optional<double> consensus_bound(std::uint32_t nodes, std::span<const EdgeClock> clocks);
std::optional<double> consensus_bound(const Graph& graph);

// Push-sum gossip at random: at each event one peer, each as often as any other, sends half of its weight u
// and of u x to a partner drawn among its links, as above but in their direction. A push clock is how
// probable it is that `from` sends to `to`.
struct PushClock {
  std::uint32_t from, to;
  double probability;
};
// Sorted, each pair of ends once. An Error where the schedule has too many links to be looked at.
Result<std::vector<PushClock>> push_clocks(const Schedule& schedule);

// What an event leaves in the mean, in the long run, of sum u_i^2 (x_i - mean)^2, which bounds V = sum (x_i -
// mean)^2 but for the least weight's square (Iutzeler, Ciblat & Hachem, "Analysis of sum-weight-like
// algorithms for averaging in wireless sensor networks", IEEE Trans. Signal Processing 61, 2013) and which V
// itself is seen to follow: the spectral radius of M -> sum_a p_a K_a M K_a' on the matrices that vanish on
// the vector of ones. For at most kPushNodesMax nodes, or nullopt.
inline constexpr std::uint32_t kPushNodesMax = 64;
std::optional<double> push_factor(std::uint32_t nodes, std::span<const PushClock> clocks);

}  // namespace starling::topologies

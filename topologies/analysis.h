// What a graph is worth for gossip: its shape, how fast a lock-step round mixes on it (the spectral gap), and
// how fast asynchronous pairwise gossip does (the factor by which an exchange shrinks the disagreement). For
// `topology show`.
#pragma once

#include <cstdint>
#include <optional>

#include "topologies/graph.h"

namespace starling::topologies {

struct Analysis {
  std::uint32_t nodes = 0;
  std::size_t edges = 0;
  std::uint32_t degree_min = 0, degree_max = 0;
  double degree_mean = 0;
  bool connected = true;
  bool bipartite = false;                 // two colors suffice (a graph without edges is bipartite)
  std::optional<std::uint32_t> diameter;  // none where it is not connected, or too large to search
  std::optional<double> spectral_gap;     // none where it did not converge, or the topology varies in time
  std::optional<double>
      consensus_factor;  // of V = sum |x_i - mean|^2, per exchange, in the mean; up to 256 nodes
  std::optional<double> consensus_bound;  // consensus_factor is at most this; any size
};

Analysis analyze(const Graph& graph);
// The same, of the topology among `peers` peers in round 0; the figures of mixing only where it is static.
Result<Analysis> analyze(const Topology& topology, std::uint32_t peers);

// 1 - the second-largest modulus of the eigenvalues of the Metropolis-Hastings matrix; 1 for a single node.
// Dense up to 512 nodes, Lanczos beyond; nullopt where that does not converge.
std::optional<double> spectral_gap(const Graph& graph);

// Gossip by edge clocks: an initiator is drawn uniformly, its partner uniformly among its neighbors, and both
// take their mean (Boyd et al., "Randomized gossip algorithms", IEEE Trans. Information Theory 52, 2006,
// section II), so edge (i, j) has probability p = (1/d_i + 1/d_j)/n. The factor is the spectral radius of M
// -> sum_e p_e W_e M W_e (W_e averages the two ends) on the matrices that vanish on the vector of ones. The
// graph has at most kFactorNodesMax nodes, or nullopt.
inline constexpr std::uint32_t kFactorNodesMax = 256;
std::optional<double> consensus_factor(const Graph& graph);

// 1 - lambda_2(L_p) / 2, L_p the Laplacian weighted by p: E[W] bounds the second moments.
std::optional<double> consensus_bound(const Graph& graph);

}  // namespace starling::topologies

// Mixing matrices: W_ij is the share of peer j in peer i after a lock-step round x <- W x. They are sparse.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topologies/graph.h"

namespace starling::topologies {

enum class Mixing : std::uint8_t {
  // W_ij = 1 / (1 + max(d_i, d_j)) between neighbors, W_ii the rest to 1: symmetric, doubly stochastic (Xiao
  // & Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 53, 2004, section
  // 2). With relative weights a_ij and strengths s_i = sum_j a_ij: a_ij / (1 + max(s_i, s_j)).
  metropolis,
  // The mean of a peer and its neighbors: W_ij = 1 / (1 + d_i). Preserves the mean only on regular graphs.
  uniform,
  lazy,  // (I + metropolis) / 2: no eigenvalue below 0
  // Column-stochastic, for directed graphs: j splits evenly, W_ij = 1 / (1 + d_j) for j and the peers that it
  // sends to. Numerators and weights are multiplied by W, and each peer reads their quotient (Kempe, Dobra &
  // Gehrke, "Gossip-based computation of aggregate information", FOCS 2003).
  push_sum,
  given,  // the family's own (Weights::mixing), doubly stochastic
};

std::string_view to_string(Mixing mixing);
// metropolis, uniform, lazy or push-sum; users cannot choose `given`.
Result<Mixing> parse_mixing(std::string_view text);
// given if the weights are a mixing matrix, else push_sum if the schedule is directed, else metropolis.
Mixing default_mixing(const Schedule& schedule);

struct MixingMatrix {
  std::vector<std::size_t> begin{0};  // [n + 1]: the entries of row i are begin[i] to begin[i + 1]
  std::vector<std::uint32_t> from;    // the columns of a row's entries, sorted, with the diagonal
  std::vector<double> weight;         // the values of the entries

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(begin.size() - 1); }
};

// An Error if the graph has no such matrix: metropolis and lazy require an undirected graph.
Result<MixingMatrix> mixing_matrix(const Graph& graph, Mixing mixing);

// The row of `peer` in the schedule's mixing matrix of this round (`given`, else metropolis) without the
// diagonal. Needs only the links of the peer and of its neighbors. REQUIRES: !schedule.directed().
Links lock_step_links(const Schedule& schedule, std::uint32_t peer, std::uint64_t round);

// out = W x; both [n].
void multiply(const MixingMatrix& w, std::span<const double> x, std::span<double> out);

// The whole matrix, row-major [n, n].
std::vector<double> dense(const MixingMatrix& w);

// Whether every row and every column sums to 1, to rounding.
bool is_doubly_stochastic(const MixingMatrix& w);

}  // namespace starling::topologies

// Mixing matrices: how much of whom a peer takes in one lock-step round x <- W x. Kept sparse, a row a peer.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topologies/graph.h"

namespace starling::topologies {

enum class Mixing : std::uint8_t {
  // W_ij = 1 / (1 + max(d_i, d_j)) between neighbors, W_ii what is left to 1: symmetric, doubly stochastic
  // (Xiao &
  // Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 53, 2004, section 2).
  // With relative weights a_ij and strengths s_i = sum_j a_ij: a_ij / (1 + max(s_i, s_j)).
  metropolis,
  uniform,  // the mean of oneself and one's neighbors: W_ij = 1 / (1 + d_i). Keeps the mean on regular graphs
            // only
  lazy,     // (I + metropolis) / 2: no eigenvalue below 0
  push_sum,  // column-stochastic, for directed graphs: j splits evenly, W_ij = 1 / (1 + d_j) for j and whom
             // it sends
  // to; numerators and weights go through it and each peer reads their quotient (Kempe, Dobra & Gehrke,
  // "Gossip-based computation of aggregate information", FOCS 2003)
  given,  // the family's own (Weights::mixing), doubly stochastic
};

std::string_view to_string(Mixing mixing);
// metropolis, uniform, lazy or push-sum; `given` is not chosen by hand.
Result<Mixing> parse_mixing(std::string_view text);
// given where the weights are a mixing matrix already, push_sum where it is directed, else metropolis.
Mixing default_mixing(const Schedule& schedule);

struct MixingMatrix {
  std::vector<std::size_t> begin{0};  // [n + 1]: row i is begin[i] to begin[i + 1]
  std::vector<std::uint32_t> from;    // of whom it takes, sorted, itself included
  std::vector<double> weight;         // how much

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(begin.size() - 1); }
};

// An Error where the graph has none: metropolis and lazy ask for an undirected one.
Result<MixingMatrix> mixing_matrix(const Graph& graph, Mixing mixing);

// Whom `peer` mixes with in that round and how much: its row of the schedule's own mixing matrix (`given`,
// else metropolis) without itself, from its links and its neighbors' alone. REQUIRES: !schedule.directed().
Links lock_step_links(const Schedule& schedule, std::uint32_t peer, std::uint64_t round);

// out = W x; both [n].
void multiply(const MixingMatrix& w, std::span<const double> x, std::span<double> out);

// The whole matrix, row-major [n, n].
std::vector<double> dense(const MixingMatrix& w);

// Every row and every column sums to 1, to rounding.
bool is_doubly_stochastic(const MixingMatrix& w);

}  // namespace starling::topologies

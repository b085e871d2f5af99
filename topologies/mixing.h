// Mixing matrices: how much of each neighbor a peer takes in one lock-step round. Kept sparse, along the
// graph's adjacencies. Symmetric and doubly stochastic, so a round conserves the mean.
#pragma once

#include <span>
#include <vector>

#include "topologies/graph.h"

namespace starling::topologies {

struct MixingMatrix {
  std::vector<double> own;      // [n], W_ii
  std::vector<double> offered;  // [2 edges], W_ij at graph.offset(i) + the place of j in graph.neighbors(i)
};

// Metropolis-Hastings weights W_ij = 1 / (1 + max(d_i, d_j)) for neighbors, and W_ii what is left to 1 (Xiao
// & Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 53, 2004, section 2).
MixingMatrix metropolis(const Graph& graph);

// out = W x; both [n].
void multiply(const Graph& graph, const MixingMatrix& w, std::span<const double> x, std::span<double> out);

// The whole matrix, row-major [n, n].
std::vector<double> dense(const Graph& graph, const MixingMatrix& w);

}  // namespace starling::topologies

#include "topologies/mixing.h"

#include <algorithm>

namespace starling::topologies {

MixingMatrix metropolis(const Graph& graph) {
  MixingMatrix w;
  w.own.resize(graph.nodes());
  w.offered.reserve(2 * graph.edge_count());
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
    double sum = 0;
    for (const std::uint32_t j : graph.neighbors(i)) {
      w.offered.push_back(1.0 / (1.0 + std::max(graph.degree(i), graph.degree(j))));
      sum += w.offered.back();
    }
    w.own[i] = 1 - sum;
  }
  return w;
}

void multiply(const Graph& graph, const MixingMatrix& w, std::span<const double> x, std::span<double> out) {
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
    double sum = w.own[i] * x[i];
    const double* weight = w.offered.data() + graph.offset(i);
    for (const std::uint32_t j : graph.neighbors(i)) sum += *weight++ * x[j];
    out[i] = sum;
  }
}

std::vector<double> dense(const Graph& graph, const MixingMatrix& w) {
  const std::size_t n = graph.nodes();
  std::vector<double> matrix(n * n);
  for (std::uint32_t i = 0; i < n; ++i) {
    matrix[i * n + i] = w.own[i];
    const auto list = graph.neighbors(i);
    for (std::size_t k = 0; k < list.size(); ++k) matrix[i * n + list[k]] = w.offered[graph.offset(i) + k];
  }
  return matrix;
}

}  // namespace starling::topologies

// A whole graph, built for looking at it: analysis, drawing, mixing matrices. Peers never build one.
// Immutable; adjacency is kept as one array, a sorted stretch for each node.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topologies/topology.h"

namespace starling::topologies {

class Graph {
 public:
  // Of the topology for `peers` peers, as it stands in `round`. More than 2^26 links (complete at 11,000
  // peers has fewer) or peers = 0 is an Error. REQUIRES of the topology: whoever is a neighbor has it as a
  // neighbor too.
  static Result<Graph> of(const Topology& topology, std::uint32_t peers, std::uint64_t round = 0);

  // From undirected edges between nodes below `nodes`, in any order; repetitions and loops are dropped.
  static Graph from_edges(std::uint32_t nodes, std::vector<std::pair<std::uint32_t, std::uint32_t>> edges);

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(begin_.size() - 1); }
  std::size_t edge_count() const { return adjacent_.size() / 2; }
  std::uint32_t degree(std::uint32_t node) const {
    return static_cast<std::uint32_t>(begin_[node + 1] - begin_[node]);
  }
  // Sorted.
  std::span<const std::uint32_t> neighbors(std::uint32_t node) const {
    return std::span(adjacent_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
  }
  // Where neighbors(node) begins in the array of all 2 edge_count() adjacencies: for values kept along them.
  std::size_t offset(std::uint32_t node) const { return begin_[node]; }
  bool has_edge(std::uint32_t a, std::uint32_t b) const;

  // f(i, j) for every edge, i < j, in lexicographic order.
  template <class F>
  void for_each_edge(F f) const {
    for (std::uint32_t i = 0; i < nodes(); ++i)
      for (const std::uint32_t j : neighbors(i))
        if (i < j) f(i, j);
  }

 private:
  std::vector<std::size_t> begin_{0};
  std::vector<std::uint32_t> adjacent_;
};

}  // namespace starling::topologies

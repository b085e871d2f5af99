// A whole graph, for analysis, drawing and mixing matrices. Peers never build one. It is immutable; the
// adjacency is one array with a sorted range for each node.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "topologies/schedule.h"

namespace starling::topologies {

class Graph {
 public:
  // The schedule's links in `round`. An Error above 2^26 links (complete has fewer for up to 8,000 peers).
  static Result<Graph> of(const Schedule& schedule, std::uint64_t round = 0);
  // All links of a period, each with its mean weight over the period. The same as of() if it is static.
  static Result<Graph> of_period(const Schedule& schedule);

  // From undirected edges between nodes below `nodes`, in any order. Repetitions and loops are removed.
  static Graph from_edges(std::uint32_t nodes, std::vector<std::pair<std::uint32_t, std::uint32_t>> edges);

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(begin_.size() - 1); }
  bool directed() const { return directed_; }
  // Undirected edges, or arcs if the graph is directed.
  std::size_t edge_count() const { return directed_ ? adjacent_.size() : adjacent_.size() / 2; }
  // The number of nodes that the node sends to.
  std::uint32_t degree(std::uint32_t node) const {
    return static_cast<std::uint32_t>(begin_[node + 1] - begin_[node]);
  }
  // The nodes that the node sends to; sorted.
  std::span<const std::uint32_t> neighbors(std::uint32_t node) const {
    return std::span(adjacent_).subspan(begin_[node], degree(node));
  }
  // The weights of the links to neighbors(node); empty if all are 1.
  std::span<const double> weights(std::uint32_t node) const {
    return weight_.empty() ? std::span<const double>()
                           : std::span(weight_).subspan(begin_[node], degree(node));
  }
  Weights weights_kind() const { return kind_; }  // their meaning
  // The index of neighbors(node) in the array of all links, for parallel arrays of values.
  std::size_t offset(std::uint32_t node) const { return begin_[node]; }
  std::size_t link_count() const { return adjacent_.size(); }
  bool has_edge(std::uint32_t from, std::uint32_t to) const;

  // Calls f(i, j) for every edge i < j (every arc from i to j of a directed graph), in lexicographic order.
  template <class F>
  void for_each_edge(F f) const {
    for (std::uint32_t i = 0; i < nodes(); ++i)
      for (const std::uint32_t j : neighbors(i))
        if (directed_ || i < j) f(i, j);
  }

 private:
  std::vector<std::size_t> begin_{0};
  std::vector<std::uint32_t> adjacent_;
  std::vector<double> weight_;  // parallel to adjacent_; empty if all are 1
  Weights kind_ = Weights::equal;
  bool directed_ = false;
};

}  // namespace starling::topologies

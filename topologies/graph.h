// A whole graph, built for looking at it: analysis, drawing, mixing matrices. Peers never build one.
// Immutable; adjacency is kept as one array, a sorted stretch for each node.
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
  // Of the schedule as it stands in `round`. More than 2^26 links is an Error (complete has fewer up to 8,000
  // peers).
  static Result<Graph> of(const Schedule& schedule, std::uint64_t round = 0);
  // Of all links of a whole period, each with its weights' mean over the period. Of a static schedule: the
  // same.
  static Result<Graph> of_period(const Schedule& schedule);

  // From undirected edges between nodes below `nodes`, in any order; repetitions and loops are dropped.
  static Graph from_edges(std::uint32_t nodes, std::vector<std::pair<std::uint32_t, std::uint32_t>> edges);

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(begin_.size() - 1); }
  bool directed() const { return directed_; }
  // Undirected edges, or arcs where the graph is directed.
  std::size_t edge_count() const { return directed_ ? adjacent_.size() : adjacent_.size() / 2; }
  // To how many others the node sends.
  std::uint32_t degree(std::uint32_t node) const {
    return static_cast<std::uint32_t>(begin_[node + 1] - begin_[node]);
  }
  // To whom the node sends; sorted.
  std::span<const std::uint32_t> neighbors(std::uint32_t node) const {
    return std::span(adjacent_).subspan(begin_[node], degree(node));
  }
  // The weights of the links to neighbors(node); empty where all are 1.
  std::span<const double> weights(std::uint32_t node) const {
    return weight_.empty() ? std::span<const double>()
                           : std::span(weight_).subspan(begin_[node], degree(node));
  }
  Weights weights_kind() const { return kind_; }  // what they mean
  // Where neighbors(node) begins in the array of all links: for values kept along them.
  std::size_t offset(std::uint32_t node) const { return begin_[node]; }
  std::size_t link_count() const { return adjacent_.size(); }
  bool has_edge(std::uint32_t from, std::uint32_t to) const;

  // f(i, j) for every edge in lexicographic order, once with i < j; of a directed graph every arc from i to
  // j.
  template <class F>
  void for_each_edge(F f) const {
    for (std::uint32_t i = 0; i < nodes(); ++i)
      for (const std::uint32_t j : neighbors(i))
        if (directed_ || i < j) f(i, j);
  }

 private:
  std::vector<std::size_t> begin_{0};
  std::vector<std::uint32_t> adjacent_;
  std::vector<double> weight_;  // along adjacent_; empty where all are 1
  Weights kind_ = Weights::equal;
  bool directed_ = false;
};

}  // namespace starling::topologies

#include "topologies/graph.h"

#include <algorithm>
#include <string>

namespace starling::topologies {
namespace {

constexpr std::size_t kLinksMax = std::size_t{1} << 26;

}  // namespace

Result<Graph> Graph::of(const Topology& topology, std::uint32_t peers, std::uint64_t round) {
  if (peers == 0) return Error{"a graph of 0 peers does not exist; at least 1 is right"};
  Graph graph;
  graph.begin_.reserve(std::size_t{peers} + 1);
  for (std::uint32_t i = 0; i < peers; ++i) {
    const auto list = topology.neighbors(i, peers, round);
    if (graph.adjacent_.size() + list.size() > 2 * kLinksMax)
      return Error{"topology '" + topology.name() + "' has too many links among " + std::to_string(peers) +
                   " peers to be looked at as a whole; up to " + std::to_string(kLinksMax) + " links are"};
    graph.adjacent_.insert(graph.adjacent_.end(), list.begin(), list.end());
    graph.begin_.push_back(graph.adjacent_.size());
  }
  return graph;
}

Graph Graph::from_edges(std::uint32_t nodes, std::vector<std::pair<std::uint32_t, std::uint32_t>> edges) {
  std::erase_if(edges, [](const auto& e) { return e.first == e.second; });
  const std::size_t given = edges.size();
  edges.reserve(2 * given);
  for (std::size_t e = 0; e < given; ++e) {
    STARLING_CHECK(edges[e].first < nodes && edges[e].second < nodes);
    edges.emplace_back(edges[e].second, edges[e].first);
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  Graph graph;
  graph.begin_.assign(std::size_t{nodes} + 1, 0);
  for (const auto& [from, to] : edges) {
    ++graph.begin_[from + 1];
    graph.adjacent_.push_back(to);
  }
  for (std::size_t i = 0; i < nodes; ++i) graph.begin_[i + 1] += graph.begin_[i];
  return graph;
}

bool Graph::has_edge(std::uint32_t a, std::uint32_t b) const {
  const auto list = neighbors(a);
  return std::binary_search(list.begin(), list.end(), b);
}

}  // namespace starling::topologies

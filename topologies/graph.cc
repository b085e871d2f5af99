#include "topologies/graph.h"

#include <algorithm>
#include <map>
#include <string>

namespace starling::topologies {
namespace {

constexpr std::size_t kLinksMax = std::size_t{1} << 26;

Error too_many(const Schedule& schedule) {
  return Error{"a graph of " + std::to_string(schedule.peers()) +
               " peers has too many links to build it as a whole; expected at most " +
               std::to_string(kLinksMax)};
}

}  // namespace

Result<Graph> Graph::of(const Schedule& schedule, std::uint64_t round) {
  Graph graph;
  graph.directed_ = schedule.directed();
  graph.kind_ = schedule.weights();
  graph.begin_.reserve(std::size_t{schedule.peers()} + 1);
  for (std::uint32_t i = 0; i < schedule.peers(); ++i) {
    const Links links = schedule.links(i, round);
    if (graph.adjacent_.size() + links.size() > kLinksMax) return too_many(schedule);
    for (const Link& link : links) {
      graph.adjacent_.push_back(link.peer);
      if (graph.kind_ != Weights::equal) graph.weight_.push_back(link.weight);
    }
    graph.begin_.push_back(graph.adjacent_.size());
  }
  return graph;
}

Result<Graph> Graph::of_period(const Schedule& schedule) {
  if (schedule.period() == 1) return of(schedule);
  Graph graph;
  graph.directed_ = schedule.directed();
  graph.kind_ = schedule.weights();
  std::map<std::uint32_t, double> row;
  for (std::uint32_t i = 0; i < schedule.peers(); ++i) {
    row.clear();
    for (std::uint64_t round = 0; round < schedule.period(); ++round)
      for (const Link& link : schedule.links(i, round)) row[link.peer] += link.weight;
    if (graph.adjacent_.size() + row.size() > kLinksMax) return too_many(schedule);
    for (const auto& [peer, weight] : row) {
      graph.adjacent_.push_back(peer);
      if (graph.kind_ != Weights::equal)
        graph.weight_.push_back(weight / static_cast<double>(schedule.period()));
    }
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

bool Graph::has_edge(std::uint32_t from, std::uint32_t to) const {
  const auto list = neighbors(from);
  return std::binary_search(list.begin(), list.end(), to);
}

}  // namespace starling::topologies

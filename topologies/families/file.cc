// A graph from a file (topologies/graph_file.h) for any set of members: the neighbors of a missing node are
// linked to each other in its place, and a peer without a node is linked to a peer that has one.
#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "topologies/graph_file.h"

namespace starling::topologies {
namespace {

// The vertex of each node, if it has one.
using Match = std::vector<std::optional<std::uint32_t>>;

Match match(const GraphFile& graph, std::span<const VertexKey> keys) {
  Match vertex_of(graph.nodes);
  std::map<VertexKey, std::uint32_t> nodes;
  for (std::uint32_t i = 0; i < graph.labels.size(); ++i) nodes.emplace(vertex_key(graph.labels[i]), i);
  bool any = false;
  for (std::uint32_t vertex = 0; vertex < keys.size(); ++vertex) {
    const auto node = nodes.find(keys[vertex]);
    if (node == nodes.end() || vertex_of[node->second]) continue;
    vertex_of[node->second] = vertex;
    any = true;
  }
  if (!any)
    for (std::uint32_t i = 0; i < std::min<std::size_t>(graph.nodes, keys.size()); ++i) vertex_of[i] = i;
  return vertex_of;
}

struct Onward {
  std::uint32_t node;
  double weight;
};
// The nodes that each node sends to.
using Adjacent = std::vector<std::vector<Onward>>;

Adjacent adjacent(const GraphFile& graph) {
  Adjacent lists(graph.nodes);
  for (const GraphFile::Edge& edge : graph.edges) {
    lists[edge.from].push_back({edge.to, edge.weight});
    if (!graph.directed) lists[edge.to].push_back({edge.from, edge.weight});
  }
  return lists;
}

// The links of `node` to the vertices that it reaches directly or, with weight `usual`, through missing nodes
// alone. Only the first of several links to a vertex is valid.
Links reach(const Adjacent& lists, const Match& vertex_of, std::uint32_t node, double usual) {
  Links links;
  std::vector<bool> passed(lists.size());
  std::vector<std::uint32_t> open;
  const auto follow = [&](const Onward& onward, double weight) {
    if (vertex_of[onward.node]) {
      links.push_back({*vertex_of[onward.node], weight});
    } else if (!passed[onward.node]) {
      passed[onward.node] = true;
      open.push_back(onward.node);
    }
  };
  for (const Onward& onward : lists[node]) follow(onward, onward.weight);
  while (!open.empty()) {
    const std::uint32_t missing = open.back();
    open.pop_back();
    for (const Onward& onward : lists[missing]) follow(onward, usual);
  }
  return links;
}

// Sorts by peer; removes links to `self` and all but the first to each peer.
void tidy(Links& links, std::uint32_t self) {
  std::erase_if(links, [&](const Link& link) { return link.peer == self; });
  std::stable_sort(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.peer < b.peer; });
  const auto same = [](const Link& a, const Link& b) { return a.peer == b.peer; };
  links.erase(std::unique(links.begin(), links.end(), same), links.end());
}

Schedule schedule(const GraphFile& graph, std::span<const VertexKey> keys) {
  const auto n = static_cast<std::uint32_t>(keys.size());
  const Match vertex_of = match(graph, keys);
  const Adjacent lists = adjacent(graph);
  double usual = 0;  // the mean weight
  for (const GraphFile::Edge& edge : graph.edges)
    usual += edge.weight / static_cast<double>(graph.edges.size());

  std::vector<Links> all(n);
  std::vector<bool> known(n);
  std::vector<std::uint32_t> matched;
  for (std::uint32_t node = 0; node < graph.nodes; ++node) {
    if (!vertex_of[node]) continue;
    const std::uint32_t vertex = *vertex_of[node];
    all[vertex] = reach(lists, vertex_of, node, usual);
    known[vertex] = true;
    matched.push_back(vertex);
  }
  std::sort(matched.begin(), matched.end());
  for (std::uint32_t stranger = 0; stranger < n; ++stranger) {
    if (known[stranger]) continue;
    const std::uint32_t host = matched[stranger % matched.size()];
    all[stranger].push_back({host, usual});
    all[host].push_back({stranger, usual});
  }
  double sum = 0;
  std::size_t count = 0;
  for (std::uint32_t vertex = 0; vertex < n; ++vertex) {
    tidy(all[vertex], vertex);
    for (const Link& link : all[vertex]) sum += link.weight;
    count += all[vertex].size();
  }
  const bool equal = std::all_of(graph.edges.begin(), graph.edges.end(),
                                 [&](const auto& edge) { return edge.weight == graph.edges[0].weight; });
  for (Links& links : all)
    for (Link& link : links) link.weight = equal ? 1 : link.weight / sum * static_cast<double>(count);
  const Schedule::Traits traits{.directed = graph.directed,
                                .weights = equal ? Weights::equal : Weights::relative};
  return Schedule(n, traits, [all = std::move(all)](std::uint32_t peer, std::uint64_t) { return all[peer]; });
}

}  // namespace

Family graph_family(GraphFile graph) {
  Family family;
  family.only_peers = graph.nodes;
  family.exists = [nodes = graph.nodes](std::uint32_t peers) -> Status {
    if (peers == nodes) return Done{};
    return Error{"the topology's file has " + std::to_string(nodes) + " nodes, so it does not exist for " +
                 std::to_string(peers) + " peers; expected " + std::to_string(nodes) + " peers"};
  };
  family.among = [graph = std::move(graph)](std::span<const VertexKey> vertices) {
    return schedule(graph, vertices);
  };
  return family;
}

}  // namespace starling::topologies

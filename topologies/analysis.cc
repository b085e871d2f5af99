#include "topologies/analysis.h"

#include <algorithm>

#include "topologies/search.h"

namespace starling::topologies {

Analysis analyze(const Graph& graph) {
  Analysis a;
  a.nodes = graph.nodes();
  a.edges = graph.edge_count();
  if (a.nodes == 0) return a;
  a.degree_min = a.degree_max = graph.degree(0);
  for (std::uint32_t i = 0; i < a.nodes; ++i) {
    a.degree_min = std::min(a.degree_min, graph.degree(i));
    a.degree_max = std::max(a.degree_max, graph.degree(i));
  }
  a.degree_mean = 2.0 * static_cast<double>(a.edges) / a.nodes;
  a.connected = is_connected(graph);
  a.bipartite = is_bipartite(graph);
  a.diameter = diameter(graph);
  a.spectral_gap = spectral_gap(graph);
  a.consensus_factor = consensus_factor(graph);
  a.consensus_bound = consensus_bound(graph);
  return a;
}

Result<Analysis> analyze(const Topology& topology, std::uint32_t peers) {
  const auto graph = Graph::of(topology, peers);
  if (!graph) return graph.error();
  Analysis a = analyze(*graph);
  if (topology.period(peers) != 1) a.spectral_gap = a.consensus_factor = a.consensus_bound = std::nullopt;
  return a;
}

}  // namespace starling::topologies

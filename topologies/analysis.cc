#include "topologies/analysis.h"

#include <algorithm>

#include "topologies/search.h"

namespace starling::topologies {

Analysis analyze(const Graph& graph) {
  Analysis a;
  a.nodes = graph.nodes();
  a.edges = graph.edge_count();
  a.directed = graph.directed();
  if (a.nodes == 0) return a;
  a.degree_min = a.degree_max = graph.degree(0);
  for (std::uint32_t i = 0; i < a.nodes; ++i) {
    a.degree_min = std::min(a.degree_min, graph.degree(i));
    a.degree_max = std::max(a.degree_max, graph.degree(i));
  }
  a.degree_mean = static_cast<double>(graph.link_count()) / a.nodes;
  a.connected = is_connected(graph);
  a.bipartite = is_bipartite(graph);
  a.diameter = diameter(graph);
  if (graph.directed()) return a;
  a.spectral_gap = spectral_gap(graph);
  a.consensus_factor = consensus_factor(graph);
  a.consensus_bound = consensus_bound(graph);
  return a;
}

Result<Analysis> analyze(const Schedule& schedule, std::optional<Mixing> mixing) {
  const auto graph = Graph::of_period(schedule);
  if (!graph) return graph.error();
  Analysis a = analyze(*graph);
  a.period = schedule.period();
  a.mixing = mixing.value_or(default_mixing(schedule));
  if (schedule.period() != 1) a.spectral_gap = a.consensus_factor = a.consensus_bound = std::nullopt;
  return a;
}

}  // namespace starling::topologies

#include "topologies/drawings/drawing.h"

#include "base/text.h"

namespace starling::topologies {
namespace {

std::string quote_dot(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// Calls f(i, j, weight) for every edge, as Graph::for_each_edge() does.
template <class F>
void for_each_weighted_edge(const Graph& graph, F f) {
  for (std::uint32_t i = 0; i < graph.nodes(); ++i)
    for (std::size_t k = 0; k < graph.degree(i); ++k)
      if (const std::uint32_t j = graph.neighbors(i)[k]; graph.directed() || i < j)
        f(i, j, graph.weights(i).empty() ? 1 : graph.weights(i)[k]);
}

}  // namespace

std::string to_dot(const Graph& graph, std::string_view title) {
  const char* const arrow = graph.directed() ? " -> " : " -- ";
  std::string out = (graph.directed() ? "digraph " : "graph ") + quote_dot(title) +
                    " {\n  layout=circo;\n  node [shape=circle];\n";
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) out += "  " + std::to_string(i) + ";\n";
  for_each_weighted_edge(graph, [&](std::uint32_t i, std::uint32_t j, double weight) {
    out += "  " + std::to_string(i) + arrow + std::to_string(j);
    if (graph.weights_kind() != Weights::equal) out += " [label=" + quote_dot(format_number(weight)) + "]";
    out += ";\n";
  });
  return out + "}\n";
}

std::string to_edge_list(const Graph& graph) {
  std::string out = graph.directed() ? "directed\n" : "";
  for_each_weighted_edge(graph, [&](std::uint32_t i, std::uint32_t j, double weight) {
    out += std::to_string(i) + " " + std::to_string(j);
    if (graph.weights_kind() != Weights::equal) out += " " + format_number(weight);
    out += "\n";
  });
  return out;
}

Result<std::vector<GraphPanel>> panels(const Schedule& schedule) {
  std::vector<GraphPanel> all;
  if (schedule.period() == 1 || schedule.period() > kPanelsMax) {
    auto graph = Graph::of_period(schedule);
    if (!graph) return graph.error();
    all.push_back({schedule.period() == 1 ? "" : "all rounds", std::move(*graph)});
    return all;
  }
  for (std::uint64_t round = 0; round < schedule.period(); ++round) {
    auto graph = Graph::of(schedule, round);
    if (!graph) return graph.error();
    all.push_back({"round " + std::to_string(round), std::move(*graph)});
  }
  return all;
}

std::string to_matrix(const Graph& graph) {
  STARLING_CHECK(graph.nodes() <= kMatrixNodesMax);
  std::string out;
  for (std::uint32_t i = 0; i < graph.nodes(); ++i) {
    for (std::uint32_t j = 0; j < graph.nodes(); ++j) {
      if (j > 0) out += ' ';
      out += i == j ? '\\' : graph.has_edge(i, j) ? '#' : '.';
    }
    out += '\n';
  }
  return out;
}

}  // namespace starling::topologies

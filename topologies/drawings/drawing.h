// Output formats of a graph: Graphviz, SVG, a list of edges, terminal graphics, a matrix. Each function
// returns a whole document that ends in a newline.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/drawings/layout.h"
#include "topologies/graph.h"

namespace starling::topologies {

std::string to_dot(const Graph& graph, std::string_view title);  // Graphviz

// "i j" per line, followed by the weight if the graph has weights. Edges have i < j, arcs lead from i to j,
// after a first line "directed". read_edge_list() (topologies/graph_file.h) reads the same graph.
std::string to_edge_list(const Graph& graph);

// The pictures of a drawing: one for a static topology, one per round for a time-varying one, or one of all
// links of a period of more than kPanelsMax rounds.
struct GraphPanel {
  std::string label;  // "round 3"; empty for a static topology
  Graph graph;
};
inline constexpr std::uint64_t kPanelsMax = 8;
Result<std::vector<GraphPanel>> panels(const Schedule& schedule);

// One SVG of all panels with a title above and a caption below, on a transparent background, in colors for
// light and dark pages. Lines that would cross a node are bent around it. `layout` is for every panel.
// REQUIRES: there is a panel.
std::string to_svg(std::span<const GraphPanel> panels, const Layout& layout, std::string_view title,
                   std::string_view caption);

// Numbered nodes and dotted lines (braille characters, or ASCII), with arrowheads if the graph is directed.
// REQUIRES: at most kTerminalNodesMax nodes.
inline constexpr std::uint32_t kTerminalNodesMax = 16;
std::string to_terminal(const Graph& graph, const Layout& layout, bool ascii = false);

// The adjacency matrix, one row per line: '#' a link, '.' none, '\' the diagonal.
// REQUIRES: at most kMatrixNodesMax nodes.
inline constexpr std::uint32_t kMatrixNodesMax = 64;
std::string to_matrix(const Graph& graph);

}  // namespace starling::topologies

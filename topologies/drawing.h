// A topology for people: Graphviz, SVG, a list of edges, dots in a terminal. Each returns a whole document that
// ends in a newline.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topologies/graph.h"
#include "topologies/layout.h"

namespace starling::topologies {

std::string to_dot(const Graph& graph, std::string_view title);  // Graphviz; arcs where the graph is directed

// "i j" a line, once with i < j; arcs from i to j. With the weight behind it where the graph has weights.
std::string to_edge_list(const Graph& graph);

// What one drawing has side by side: a static topology one picture, a time-varying one its rounds, or all links of
// a period where those are more than kPanelsMax.
struct Panel {
  std::string label;  // "round 3"; empty where there is one picture
  Graph graph;
};
inline constexpr std::uint64_t kPanelsMax = 8;
Result<std::vector<Panel>> panels(const Schedule& schedule);

// One SVG of all panels under a title and above a caption, on no background, in colors for light and dark pages.
// Lines that would cross a node are bent around it. `layout` has all panels' nodes; panels are not empty.
std::string to_svg(std::span<const Panel> panels, const Layout& layout, std::string_view title,
                   std::string_view caption);

// Numbered nodes joined by dotted lines (braille characters), with arrowheads where the graph is directed.
// REQUIRES: at most kTerminalNodesMax nodes.
inline constexpr std::uint32_t kTerminalNodesMax = 16;
std::string to_terminal(const Graph& graph, const Layout& layout);

// The adjacency matrix, a row a line: '#' a link, '.' none, '\' the diagonal. REQUIRES: at most
// kMatrixNodesMax nodes.
inline constexpr std::uint32_t kMatrixNodesMax = 64;
std::string to_matrix(const Graph& graph);

}  // namespace starling::topologies

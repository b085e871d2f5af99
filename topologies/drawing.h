// A graph for people: Graphviz, SVG, a list of edges, dots in a terminal. Each returns a whole document that
// ends in a newline.
#pragma once

#include <string>
#include <string_view>

#include "topologies/graph.h"

namespace starling::topologies {

std::string to_dot(const Graph& graph, std::string_view title);  // Graphviz, an undirected graph
std::string to_svg(const Graph& graph,
                   std::string_view title);    // nodes on a circle, number 0 at the top, clockwise
std::string to_edge_list(const Graph& graph);  // "i j" a line, i < j
// The adjacency matrix, a row a line: '#' a link, '.' none, '\' the diagonal. REQUIRES: at most
// kMatrixNodesMax nodes.
inline constexpr std::uint32_t kMatrixNodesMax = 64;
std::string to_matrix(const Graph& graph);

}  // namespace starling::topologies

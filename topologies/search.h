// Breadth-first questions about a graph: is it one piece, how wide is it, do two colors suffice.
#pragma once

#include <cstdint>
#include <optional>

#include "topologies/graph.h"

namespace starling::topologies {

bool is_connected(const Graph& graph);  // a single node is, and so is nothing
bool is_bipartite(const Graph& graph);

// The longest of all shortest paths, in hops. nullopt where the graph is not connected, or where searching
// from every node would follow more than 2^32 links.
std::optional<std::uint32_t> diameter(const Graph& graph);

}  // namespace starling::topologies

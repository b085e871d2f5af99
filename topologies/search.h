// Breadth-first questions about a graph: is it one piece, how wide is it, do two colors suffice.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topologies/graph.h"

namespace starling::topologies {

bool is_connected(const Graph& graph);  // a single node is, and so is nothing; arcs: everyone reaches everyone
bool is_bipartite(const Graph& graph);  // whichever way arcs point

// The longest of all shortest paths, in hops, along the arcs. nullopt where the graph is not connected, or where
// the search would follow more than some 10^9 links.
std::optional<std::uint32_t> diameter(const Graph& graph);

// hops[i][j], how many from i to j along the arcs; kUnreached where there is no way. For small graphs: n^2 numbers.
inline constexpr std::uint32_t kUnreached = ~0u;
std::vector<std::vector<std::uint32_t>> all_hops(const Graph& graph);

}  // namespace starling::topologies

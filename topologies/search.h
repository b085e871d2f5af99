// Properties of a graph by breadth-first search: whether it is connected or bipartite, distances, diameter.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topologies/graph.h"

namespace starling::topologies {

// True without nodes and for a single node. In a directed graph, every node must reach every other.
bool is_connected(const Graph& graph);
bool is_bipartite(const Graph& graph);  // ignores the directions of arcs

// The longest of all shortest paths, in hops along the arcs. nullopt if the graph is not connected, or if the
// search would follow more than about 10^9 links.
std::optional<std::uint32_t> diameter(const Graph& graph);

// hops[i][j], the number of hops from i to j along the arcs; kUnreached without a path. Takes n^2 numbers,
// so it is for small graphs.
inline constexpr std::uint32_t kUnreached = ~0u;
std::vector<std::vector<std::uint32_t>> all_hops(const Graph& graph);

}  // namespace starling::topologies

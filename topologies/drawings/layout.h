// Positions of the nodes of a drawing, chosen by family so that its structure is visible.
#pragma once

#include <string_view>
#include <vector>

#include "topologies/graph.h"

namespace starling::topologies {

struct Point {
  double x = 0, y = 0;  // x to the right, y downwards
};
using Layout = std::vector<Point>;  // [nodes]

// The layout for the graph of this topology: a line, a star with its hub in the middle, a torus as a grid, a
// hypercube as a row of cubes, a tree by levels, a dumbbell as two circles; random-regular and erdos-renyi
// graphs and graphs from files by distance; all others on a circle, clockwise, with node 0 at the top. Fills
// [-1, 1] in its longer direction, centered at 0. Deterministic. No two nodes coincide.
Layout layout(const Graph& graph, std::string_view topology_name);

// Graphs with more nodes are on a circle instead of laid out by distance.
inline constexpr std::uint32_t kStressNodesMax = 400;

}  // namespace starling::topologies

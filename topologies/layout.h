// Where the nodes of a drawing lie, so that it shows the structure that the family is named for.
#pragma once

#include <string_view>
#include <vector>

#include "topologies/graph.h"

namespace starling::topologies {

struct Point {
  double x = 0, y = 0;  // x to the right, y downwards
};
using Layout = std::vector<Point>;  // [nodes]

// For the graph of the topology that is called so. A line is a line, a star has its hub in the middle, a torus is a
// grid, a hypercube cubes beside cubes, a tree has levels, a dumbbell two circles; families that are drawn at random
// and graphs from files are laid out by their distances; all others lie on a circle, number 0 at the top, clockwise.
// Fills [-1, 1] in its longer direction, around 0. The same for the same graph, always. No two nodes coincide.
Layout layout(const Graph& graph, std::string_view topology_name);

// Beyond so many nodes distances are too many, and a graph lies on a circle instead.
inline constexpr std::uint32_t kStressNodesMax = 400;

}  // namespace starling::topologies

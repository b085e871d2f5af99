// The shapes of a drawn graph, for every kind of drawing: dots, lines that avoid them, and arrowheads.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "topologies/drawings/layout.h"
#include "topologies/graph.h"

namespace starling::topologies {

struct GraphStroke {
  Point from, to;             // at the rims of the dots
  std::optional<Point> bend;  // the control point of a quadratic curve; none: a straight line
};

struct GraphShapes {
  double dot = 0, line = 0;                 // the radius of a dot, the width of a line
  std::vector<GraphStroke> strokes;         // in the order of for_each_edge()
  std::vector<std::array<Point, 3>> heads;  // of a directed graph; the tip is first
};

struct GraphLimits {
  double dot_max = 14, line_max = 1.6;
};

// The shapes of a graph whose nodes are at these places. Lines that would cross a node, and arcs with an arc
// back, are bent; they stay within the margin around the nodes. Lengths are in the unit of the places.
GraphShapes graph_shapes(const Graph& graph, const std::vector<Point>& nodes, double margin,
                         const GraphLimits& limits = {});

}  // namespace starling::topologies

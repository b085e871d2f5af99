#include "topologies/drawings/shapes.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace starling::topologies {
namespace {

constexpr double kBend = 0.16;  // distance of the control point of a bent line, relative to its length
constexpr std::size_t kBendEdgesMax = 20'000;  // with more edges, lines are not checked for crossed nodes

double distance(const Point& a, const Point& b) { return std::hypot(a.x - b.x, a.y - b.y); }

// The distance of p from the line from a to b.
double distance_to_line(const Point& p, const Point& a, const Point& b) {
  const double dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
  const double t = square > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / square, 0.0, 1.0) : 0;
  return distance(p, {a.x + t * dx, a.y + t * dy});
}

// The point at distance `by` from a towards b.
Point towards(const Point& a, const Point& b, double by) {
  const double apart = std::max(1e-9, distance(a, b));
  return {a.x + (b.x - a.x) * by / apart, a.y + (b.y - a.y) * by / apart};
}

// The least distance between two nodes, by a sweep from left to right.
double least_distance(std::vector<Point> points) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  double least = 1e9;
  for (std::size_t i = 0; i < points.size(); ++i)
    for (std::size_t j = i + 1; j < points.size() && points[j].x - points[i].x < least; ++j)
      least = std::min(least, distance(points[i], points[j]));
  return least;
}

class Shaper {
 public:
  Shaper(const Graph& graph, const std::vector<Point>& nodes, double margin, const GraphLimits& limits)
      : graph_(graph), nodes_(nodes), bend_max_(2 * (margin - 4)) {
    shapes_.dot = std::clamp(0.36 * least_distance(nodes), 1.2, limits.dot_max);
    shapes_.line = std::clamp(400.0 / static_cast<double>(graph.edge_count() + 1), 0.15, limits.line_max);
    shapes_.line = std::min(shapes_.line, shapes_.dot / 2);
  }

  GraphShapes shapes() && {
    graph_.for_each_edge([&](std::uint32_t i, std::uint32_t j) {
      const std::optional<Point> bend = bend_of(i, j);
      const Point start = towards(nodes_[i], bend.value_or(nodes_[j]), shapes_.dot);
      const Point end = towards(nodes_[j], bend.value_or(nodes_[i]), shapes_.dot);
      shapes_.strokes.push_back({start, end, bend});
      if (graph_.directed()) shapes_.heads.push_back(head(bend.value_or(nodes_[i]), end));
    });
    return std::move(shapes_);
  }

 private:
  // The control point of a line that must be bent because it would cross a node or coincide with an arc back.
  std::optional<Point> bend_of(std::uint32_t i, std::uint32_t j) const {
    const Point &a = nodes_[i], &b = nodes_[j];
    bool bent = graph_.directed() && graph_.has_edge(j, i);
    for (std::size_t k = 0; !bent && graph_.edge_count() <= kBendEdgesMax && k < nodes_.size(); ++k)
      bent = k != i && k != j && distance_to_line(nodes_[k], a, b) < 0.8 * shapes_.dot;
    if (!bent) return std::nullopt;
    const double bend = std::min(kBend, bend_max_ / distance(a, b));
    return Point{(a.x + b.x) / 2 + (b.y - a.y) * bend, (a.y + b.y) / 2 - (b.x - a.x) * bend};
  }

  std::array<Point, 3> head(const Point& from, const Point& tip) const {
    const double length = std::clamp(0.9 * shapes_.dot, 2.0, 9.0);
    const Point back = towards(tip, from, length);
    const double nx = (tip.y - back.y) * 0.38, ny = (back.x - tip.x) * 0.38;
    return {tip, Point{back.x + nx, back.y + ny}, Point{back.x - nx, back.y - ny}};
  }

  const Graph& graph_;
  const std::vector<Point>& nodes_;
  double bend_max_;
  GraphShapes shapes_;
};

}  // namespace

GraphShapes graph_shapes(const Graph& graph, const std::vector<Point>& nodes, double margin,
                         const GraphLimits& limits) {
  return Shaper(graph, nodes, margin, limits).shapes();
}

}  // namespace starling::topologies

#include "topologies/drawings/layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/random.h"
#include "topologies/search.h"
#include "topologies/spectra/mixing.h"

namespace starling::topologies {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

Point on_circle(double turns) {  // clockwise from the top
  return {std::sin(kTurn * turns), -std::cos(kTurn * turns)};
}

Layout circle(std::uint32_t n) {
  Layout points(n);
  for (std::uint32_t i = 0; i < n; ++i) points[i] = on_circle(i / static_cast<double>(n));
  return points;
}

Layout line(std::uint32_t n) {
  Layout points(n);
  for (std::uint32_t i = 0; i < n; ++i) points[i] = {static_cast<double>(i), 0};
  return points;
}

Layout star(std::uint32_t n) {
  Layout points(n);
  for (std::uint32_t i = 1; i < n; ++i) points[i] = on_circle((i - 1) / (n - 1.0));
  return points;
}

// Row by row. The neighbors of node 0 are 1 and columns - 1 in its row, and `columns` below it.
Layout torus(const Graph& graph) {
  const std::uint32_t n = graph.nodes();
  const auto neighbors = n > 0 ? graph.neighbors(0) : std::span<const std::uint32_t>();
  const std::uint32_t columns = neighbors.size() >= 3 ? neighbors[2] : std::max(1u, std::min(2u, n));
  Layout points(n);
  for (std::uint32_t i = 0; i < n; ++i)
    points[i] = {static_cast<double>(i % columns), static_cast<double>(i / columns)};
  return points;
}

// A direction for each bit: two for a square, an oblique one for a cube, then slightly oblique ones to
// further cubes, so that no two lines coincide.
Layout hypercube(std::uint32_t n) {
  Layout points(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t bits = i; bits != 0; bits &= bits - 1) {
      const int bit = std::countr_zero(bits);
      const double far = 2.0 * std::exp2((bit - 3) / 2), skew = (bit - 3) / 2 % 2 == 0 ? 0.14 : -0.22;
      const Point step = bit == 0   ? Point{1, 0}
                         : bit == 1 ? Point{0, 1}
                         : bit == 2 ? Point{0.42, -0.36}
                         : bit % 2  ? Point{far, -skew * far}
                                    : Point{skew * far, far};
      points[i].x += step.x;
      points[i].y += step.y;
    }
  }
  return points;
}

// Levels of the complete binary tree in a heap's numbering.
Layout tree(std::uint32_t n) {
  Layout points(n);
  const double levels = n > 0 ? std::bit_width(n) : 1;
  for (std::uint32_t i = 0; i < n; ++i) {
    const int level = std::bit_width(i + 1) - 1;
    const double width = std::exp2(level);
    points[i] = {(i + 1 - width + 0.5) / width, 0.6 * level / levels};
  }
  return points;
}

// Two circles; the two linked nodes face each other.
Layout dumbbell(std::uint32_t n) {
  const std::uint32_t half = n - n / 2;
  Layout points(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const bool left = i < half;
    const double turns = left ? 0.25 + (i + 1.0) / half : 0.75 + (i - half) / std::max(1.0, n - half + 0.0);
    points[i] = on_circle(turns);
    points[i].x += left ? -1.5 : 1.5;
  }
  return points;
}

// The two eigenvectors that decay slowest under repeated mixing: nodes near in the graph are near in them
// (Hall, "An r-dimensional quadratic placement algorithm", Management Science 17, 1970).
Layout spectral(const Graph& graph) {
  const std::size_t n = graph.nodes();
  const MixingMatrix w = *mixing_matrix(graph, Mixing::lazy);
  Random random(1);
  std::vector<double> x(n), y(n), next(n);
  for (double& v : x) v = random.normal();
  for (double& v : y) v = random.normal();
  const auto dot = [n](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  };
  const auto clean = [&](std::vector<double>& v, const std::vector<double>* other) {
    double mean = 0;
    for (const double value : v) mean += value / static_cast<double>(n);
    for (double& value : v) value -= mean;
    const double along = other ? dot(v, *other) : 0;
    for (std::size_t i = 0; other && i < n; ++i) v[i] -= along * (*other)[i];
    const double length = std::max(1e-300, std::sqrt(dot(v, v)));
    for (double& value : v) value /= length;
  };
  for (int step = 0; step < 300; ++step) {
    multiply(w, x, next);
    std::swap(x, next);
    clean(x, nullptr);
    multiply(w, y, next);
    std::swap(y, next);
    clean(y, &x);
  }
  Layout points(n);
  const double reach = std::sqrt(static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i)
    points[i] = {reach * x[i] + 0.01 * random.normal(), reach * y[i] + 0.01 * random.normal()};
  return points;
}

// Distances as in hops, short ones most accurately: each node in turn moves to the weighted mean of the
// places that the others assign to it (Gansner, Koren & North, "Graph drawing by stress majorization", GD
// 2004, section 2, weights 1/d^2).
Layout stress(const Graph& directed) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> links;
  directed.for_each_edge([&](std::uint32_t i, std::uint32_t j) { links.emplace_back(i, j); });
  const Graph graph = Graph::from_edges(directed.nodes(), std::move(links));
  const std::size_t n = graph.nodes();
  const std::vector<std::vector<std::uint32_t>> hops = all_hops(graph);
  std::uint32_t longest = 1;
  for (const auto& row : hops)
    for (const std::uint32_t h : row) longest = h == kUnreached ? longest : std::max(longest, h);

  Layout points = spectral(graph);
  for (int sweep = 0; sweep < 200; ++sweep) {
    for (std::size_t i = 0; i < n; ++i) {
      double x = 0, y = 0, sum = 0;
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        const double d = hops[i][j] == kUnreached ? longest + 1 : hops[i][j];
        const double dx = points[i].x - points[j].x, dy = points[i].y - points[j].y;
        const double apart = std::max(1e-9, std::hypot(dx, dy)), weight = 1 / (d * d);
        x += weight * (points[j].x + d * dx / apart);
        y += weight * (points[j].y + d * dy / apart);
        sum += weight;
      }
      if (sum > 0) points[i] = {x / sum, y / sum};
    }
  }
  return points;
}

// Centers the points at 0 and scales the longer direction to [-1, 1].
Layout fitted(Layout points) {
  if (points.empty()) return points;
  const auto by_x = [](const Point& a, const Point& b) { return a.x < b.x; };
  const auto by_y = [](const Point& a, const Point& b) { return a.y < b.y; };
  const auto [left, right] = std::minmax_element(points.begin(), points.end(), by_x);
  const auto [top, bottom] = std::minmax_element(points.begin(), points.end(), by_y);
  const Point middle{(left->x + right->x) / 2, (top->y + bottom->y) / 2};
  const double reach = std::max(right->x - left->x, bottom->y - top->y) / 2;
  for (Point& p : points) {
    p.x = reach > 0 ? (p.x - middle.x) / reach : 0;
    p.y = reach > 0 ? (p.y - middle.y) / reach : 0;
  }
  return points;
}

Layout unfitted(const Graph& graph, std::string_view family) {
  const std::uint32_t n = graph.nodes();
  if (family == "line") return line(n);
  if (family == "star") return star(n);
  if (family == "torus") return torus(graph);
  if (family == "hypercube") return hypercube(n);
  if (family == "tree") return tree(n);
  if (family == "dumbbell") return dumbbell(n);
  const bool by_distance =
      family == "random-regular" || family == "erdos-renyi" || family == "file" || family == "edges";
  return by_distance && n <= kStressNodesMax ? stress(graph) : circle(n);
}

}  // namespace

Layout layout(const Graph& graph, std::string_view topology_name) {
  return fitted(unfitted(graph, topology_name.substr(0, topology_name.find(':'))));
}

}  // namespace starling::topologies

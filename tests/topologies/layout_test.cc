#include "topologies/drawings/layout.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/catch.h"
#include "tests/topologies/family.h"

namespace starling::topologies {
namespace {

Layout layout_of(const std::string& name, std::uint32_t n) {
  return layout(*Graph::of_period(named(name).among(n)), name);
}

double distance(const Point& a, const Point& b) { return std::hypot(a.x - b.x, a.y - b.y); }

bool at(const Point& p, double x, double y) {
  UNSCOPED_INFO("at " << p.x << ", " << p.y);
  return std::abs(p.x - x) < 1e-9 && std::abs(p.y - y) < 1e-9;
}

}  // namespace

TEST_CASE("every layout fills its box, and no two nodes coincide") {
  for (const std::string& name : all_families()) {
    for (const std::uint32_t n : {1u, 2u, 3u, 5u, 12u, 16u, 33u, 64u, 150u}) {
      CAPTURE(name, n);
      const Layout points = layout_of(name, n);
      REQUIRE(points.size() == n);
      double x = 0, y = 0, least = 2;
      for (std::uint32_t i = 0; i < n; ++i) {
        REQUIRE(std::isfinite(points[i].x + points[i].y));
        x = std::max(x, std::abs(points[i].x));
        y = std::max(y, std::abs(points[i].y));
        for (std::uint32_t j = 0; j < i; ++j) least = std::min(least, distance(points[i], points[j]));
      }
      REQUIRE(least > 0.2 / n);
      if (n > 1) REQUIRE(std::abs(std::max(x, y) - 1) < 1e-9);
    }
  }
}

TEST_CASE("a layout is the same every time") {
  for (const char* name : {"random-regular:k=3", "erdos-renyi", "hypercube"}) {
    const Layout once = layout_of(name, 32), again = layout_of(name, 32);
    for (std::size_t i = 0; i < 32; ++i) REQUIRE((once[i].x == again[i].x && once[i].y == again[i].y));
  }
}

TEST_CASE("the layouts of ring, line, star, torus, tree and dumbbell have these shapes") {
  const Layout ring = layout_of("ring", 4);
  REQUIRE((at(ring[0], 0, -1) && at(ring[1], 1, 0) && at(ring[2], 0, 1) && at(ring[3], -1, 0)));

  const Layout line = layout_of("line", 5);
  for (std::size_t i = 0; i < 5; ++i) REQUIRE(at(line[i], -1 + 0.5 * static_cast<double>(i), 0));

  const Layout star = layout_of("star", 9);
  REQUIRE(at(star[0], 0, 0));
  for (std::size_t i = 1; i < 9; ++i) REQUIRE(std::abs(distance(star[0], star[i]) - 1) < 1e-9);

  const Layout torus = layout_of("torus", 12);  // 3 rows of 4
  REQUIRE((at(torus[0], -1, -2.0 / 3) && at(torus[3], 1, -2.0 / 3) && at(torus[11], 1, 2.0 / 3)));

  const Layout tree = layout_of("tree", 7);
  REQUIRE(std::abs(tree[0].x) < 1e-9);
  REQUIRE(
      (tree[1].y == tree[2].y && tree[3].y == tree[6].y && tree[0].y < tree[1].y && tree[1].y < tree[3].y));
  REQUIRE(std::abs(tree[3].x + tree[4].x - 2 * tree[1].x) <
          1e-9);  // a parent above the middle of its children

  const Layout dumbbell = layout_of("dumbbell", 12);
  for (std::size_t i = 0; i < 6; ++i) REQUIRE((dumbbell[i].x < 0 && dumbbell[i + 6].x > 0));
  for (std::size_t i = 0; i < 12; ++i)  // the two linked vertices face each other
    REQUIRE(distance(dumbbell[5], dumbbell[6]) <= distance(dumbbell[5], dumbbell[i]) + (i < 6 ? 2 : 1e-9));
}

TEST_CASE("a hypercube's links of one dimension are parallel and equally long") {
  const Layout points = layout_of("hypercube", 64);
  for (std::uint32_t bit = 1; bit < 64; bit *= 2)
    for (std::uint32_t i = 0; i < 64; ++i)
      if ((i & bit) == 0)
        REQUIRE(at({points[i | bit].x - points[i].x, points[i | bit].y - points[i].y},
                   points[bit].x - points[0].x, points[bit].y - points[0].y));
}

TEST_CASE("other graphs are laid out so that linked nodes are close") {
  for (const char* name : {"random-regular:k=3", "erdos-renyi:p=0.08"}) {
    const auto graph = *Graph::of(named(name).among(80));
    const Layout points = layout(graph, name);
    double linked = 0, all = 0;
    graph.for_each_edge([&](std::uint32_t i, std::uint32_t j) { linked += distance(points[i], points[j]); });
    for (std::uint32_t i = 0; i < 80; ++i)
      for (std::uint32_t j = 0; j < i; ++j) all += distance(points[i], points[j]);
    CAPTURE(name);
    REQUIRE(linked / static_cast<double>(graph.edge_count()) < 0.6 * all / (80 * 79 / 2));
  }
  // A ring from a file is laid out as a ring: its neighbors are closest.
  const auto ring = *Graph::of(named("ring").among(20));
  const Layout points = layout(ring, "file:ring.txt");
  for (std::uint32_t i = 0; i < 20; ++i)
    for (std::uint32_t j = 2; j < 19; ++j)
      REQUIRE(distance(points[i], points[(i + 1) % 20]) < distance(points[i], points[(i + j) % 20]));
}

TEST_CASE("disconnected graphs and graphs without links have a layout") {
  for (const auto& graph :
       {Graph::from_edges(6, {{0, 1}, {2, 3}}), Graph::from_edges(5, {}), Graph::from_edges(0, {})}) {
    const Layout points = layout(graph, "file:pieces");
    REQUIRE(points.size() == graph.nodes());
    for (std::uint32_t i = 0; i < graph.nodes(); ++i)
      for (std::uint32_t j = 0; j < i; ++j) REQUIRE(distance(points[i], points[j]) > 0.05);
  }
}

}  // namespace starling::topologies

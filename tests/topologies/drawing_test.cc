#include "topologies/drawing.h"

#include <algorithm>

#include "tests/catch.h"
#include "topologies/topology.h"

namespace starling::topologies {
namespace {

Graph triangle_with_tail() {
  return Graph::from_edges(4, {{0, 1}, {1, 2}, {2, 0}, {2, 3}});
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("the edge list has a line for every edge, once") {
  REQUIRE(to_edge_list(triangle_with_tail()) == "0 1\n0 2\n1 2\n2 3\n");
}

TEST_CASE("the matrix shows links as dots") {
  REQUIRE(to_matrix(triangle_with_tail()) ==
          "\\ # # .\n"
          "# \\ # .\n"
          "# # \\ #\n"
          ". . # \\\n");
}

TEST_CASE("Graphviz gets every node and edge under a quoted title") {
  const std::string dot = to_dot(triangle_with_tail(), "a \"graph\"");
  REQUIRE(dot.rfind("graph \"a \\\"graph\\\"\" {", 0) == 0);
  REQUIRE(count(dot, " -- ") == 4);
  REQUIRE(count(dot, "  3;\n") == 1);
  REQUIRE(dot.substr(dot.size() - 2) == "}\n");
}

TEST_CASE("the SVG draws a circle for every node and a line for every edge") {
  const std::string svg = to_svg(triangle_with_tail(), "a < b");
  REQUIRE(count(svg, "<circle ") == 4);
  REQUIRE(count(svg, "<line ") == 4);
  REQUIRE(count(svg, "<text ") == 4);
  REQUIRE(count(svg, "a &lt; b") == 1);
  REQUIRE(count(svg, "cx=\"320.00\" cy=\"40.00\"") == 1);   // number 0 at the top
  REQUIRE(count(svg, "cx=\"600.00\" cy=\"320.00\"") == 1);  // number 1 of 4 to the right
  REQUIRE(count(to_svg(Graph::from_edges(1, {}), "one"), "<circle ") == 1);
  REQUIRE(count(to_svg(Graph::from_edges(1000, {{0, 1}}), "many"), "<text ") == 0);
}

}  // namespace starling::topologies

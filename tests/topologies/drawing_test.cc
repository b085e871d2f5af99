#include "topologies/drawings/drawing.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/topologies/family.h"

namespace starling::topologies {
namespace {

Graph triangle_with_tail() { return Graph::from_edges(4, {{0, 1}, {1, 2}, {2, 0}, {2, 3}}); }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string svg_of(const std::string& name, std::uint32_t n) {
  const auto schedule = named(name).among(n);
  return to_svg(*panels(schedule), layout(*Graph::of_period(schedule), name), name, "a caption");
}

// Whether tags are nested and closed, attributes are quoted, and text has no bare '<' or '&'.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < xml.size()) {
    if (xml[at] == '&') {
      const auto end = xml.find(';', at);
      const std::string entity = xml.substr(at, end - at + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;") return false;
    }
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    const auto end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || contains(tag, "<")) return false;
    const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty();
}

// All values of an attribute.
std::vector<double> values(const std::string& svg, const std::string& attribute) {
  std::vector<double> all;
  const std::string key = " " + attribute + "=\"";
  for (std::size_t at = svg.find(key); at != std::string::npos; at = svg.find(key, at + 1))
    all.push_back(std::strtod(svg.c_str() + at + key.size(), nullptr));
  return all;
}

Schedule arcs() {  // 0 -> 1 -> 2 -> 0, and 1 -> 0
  return Schedule(3, {.directed = true}, [](std::uint32_t i, std::uint64_t) {
    return i == 1 ? Links{{0}, {2}} : Links{{(i + 1) % 3}};
  });
}

}  // namespace

TEST_CASE("the edge list has one line for every edge or arc") {
  REQUIRE(to_edge_list(triangle_with_tail()) == "0 1\n0 2\n1 2\n2 3\n");
  REQUIRE(to_edge_list(*Graph::of(arcs())) == "directed\n0 1\n1 0\n1 2\n2 0\n");
  const Schedule weighted(2, {.weights = Weights::relative}, [](std::uint32_t i, std::uint64_t) {
    return Links{{1 - i, 2.5}};
  });
  REQUIRE(to_edge_list(*Graph::of(weighted)) == "0 1 2.5\n");
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
  const std::string directed = to_dot(*Graph::of(arcs()), "arcs");
  REQUIRE(directed.rfind("digraph \"arcs\" {", 0) == 0);
  REQUIRE(count(directed, " -> ") == 4);
}

TEST_CASE("an SVG is well-formed and has a circle for every node and a line for every edge") {
  for (const std::string& name : all_families()) {
    for (const std::uint32_t n : {1u, 2u, 9u, 16u, 40u}) {
      CAPTURE(name, n);
      const std::string svg = svg_of(name, n);
      const auto all = *panels(named(name).among(n));
      std::size_t edges = 0, arcs = 0;
      for (const GraphPanel& panel : all) {
        edges += panel.graph.edge_count();
        arcs += panel.graph.directed() ? panel.graph.edge_count() : 0;
      }
      REQUIRE(is_well_formed(svg));
      REQUIRE(count(svg, "<circle ") == n * all.size());
      REQUIRE(count(svg, "<line ") + count(svg, "<path ") == edges + arcs);  // an arc has an arrowhead
      REQUIRE(count(svg, "nan") == 0);
      REQUIRE(count(svg, "inf") == 0);
    }
  }
}

TEST_CASE("all elements of an SVG are inside its view box") {
  for (const char* name :
       {"torus", "hypercube", "tree", "random-regular:k=4", "one-peer-exponential", "dumbbell"}) {
    const std::string svg = svg_of(name, 32);
    const auto box = svg.find("viewBox=\"0 0 ");
    char* rest = nullptr;
    const double width = std::strtod(svg.c_str() + box + 13, &rest), height = std::strtod(rest, nullptr);
    CAPTURE(name, width, height);
    for (const char* attribute : {"cx", "x1", "x2", "x"})
      for (const double x : values(svg, attribute)) REQUIRE((x > 0 && x < width));
    for (const char* attribute : {"cy", "y1", "y2", "y"})
      for (const double y : values(svg, attribute)) REQUIRE((y > 0 && y < height));
  }
}

TEST_CASE("titles and captions are escaped") {
  const Graph graph = triangle_with_tail();
  const std::string svg =
      to_svg(std::vector<GraphPanel>{{"", graph}}, layout(graph, "x"), "a < b & c", "\x01>");
  REQUIRE(is_well_formed(svg));
  REQUIRE(count(svg, "a &lt; b &amp; c") == 2);  // the document's title and the visible one
  REQUIRE(count(svg, "?&gt;") == 1);
}

TEST_CASE("a time-varying topology has a picture for each of its rounds, up to eight") {
  const auto four = *panels(named("one-peer-exponential").among(16));
  REQUIRE(four.size() == 4);
  REQUIRE((four[0].label == "round 0" && four[3].label == "round 3"));
  for (const GraphPanel& panel : four) REQUIRE(panel.graph.edge_count() == 16);
  const auto many = *panels(named("one-peer-exponential").among(1024));
  REQUIRE(many.size() == 1);
  REQUIRE(many[0].label == "all rounds");
  REQUIRE(panels(named("ring").among(16))->front().label.empty());
}

TEST_CASE("the terminal drawing shows every node's number once, with dots between them") {
  for (const std::string& name : all_families()) {
    for (const std::uint32_t n : {1u, 2u, 9u, 16u}) {
      CAPTURE(name, n);
      const auto graph = *Graph::of_period(named(name).among(n));
      const std::string text = to_terminal(graph, layout(graph, name));
      std::vector<std::string> words;
      for (const char c : text) {
        const bool digit = c >= '0' && c <= '9';
        if (!digit && (words.empty() || !words.back().empty())) words.emplace_back();
        if (digit && words.empty()) words.emplace_back();
        if (digit) words.back() += c;
      }
      for (std::uint32_t i = 0; i < n; ++i)
        REQUIRE(std::count(words.begin(), words.end(), std::to_string(i)) == 1);
      REQUIRE((text.find('\xE2') != std::string::npos) == (graph.edge_count() > 0));
      std::size_t columns = 0, lines = 0, longest = 0;
      for (const char c : text) {
        if (c == '\n') {
          longest = std::max(longest, columns);
          columns = 0;
          ++lines;
        } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
          ++columns;
        }
      }
      REQUIRE(longest <= 60);
      REQUIRE(lines <= 25);
    }
  }
  REQUIRE(contains(to_terminal(*Graph::of(arcs()), layout(*Graph::of(arcs()), "x")),
                   "\xE2\x86"));  // an arrowhead
}

}  // namespace starling::topologies

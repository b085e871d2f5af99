// to_svg of topologies/drawing.h.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "topologies/drawing.h"
#include "topologies/xml.h"

namespace starling::topologies {
namespace {

constexpr double kDotMax = 14;        // radius
constexpr double kLabelDotMin = 6.5;  // smaller dots have no label
constexpr double kTitleHeight = 34, kCaptionHeight = 30, kLabelHeight = 24;
constexpr double kBend = 0.16;  // distance of the control point of a bent line, relative to its length
constexpr std::size_t kBendEdgesMax = 20'000;  // with more edges, lines are not checked for crossed nodes

// With two decimals, hundredths of a pixel.
std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value == 0 ? 0.0 : value);
  return text;
}

std::string at(const Point& p) { return decimal(p.x) + " " + decimal(p.y); }

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

// One panel: the places of its nodes on the page, and its line and dot sizes.
class Picture {
 public:
  // A bent line stays within the margin around the nodes.
  Picture(const Graph& graph, std::vector<Point> nodes, double margin)
      : graph_(graph), nodes_(std::move(nodes)), bend_max_(2 * (margin - 4)) {
    dot_ = std::clamp(0.36 * least_distance(nodes_), 1.2, kDotMax);
    line_ = std::clamp(400.0 / static_cast<double>(graph.edge_count() + 1), 0.15, 1.6);
    line_ = std::min(line_, dot_ / 2);
  }

  std::string edges() const {
    std::string lines, heads;
    graph_.for_each_edge([&](std::uint32_t i, std::uint32_t j) {
      const Point from = nodes_[i], to = nodes_[j];
      const std::optional<Point> bend = bend_of(i, j);
      const Point start = towards(from, bend.value_or(to), dot_);
      const Point end = towards(to, bend.value_or(from), dot_);
      if (bend)
        lines += "<path d=\"M" + at(start) + " Q" + at(*bend) + " " + at(end) + "\"/>\n";
      else
        lines += "<line x1=\"" + decimal(start.x) + "\" y1=\"" + decimal(start.y) + "\" x2=\"" +
                 decimal(end.x) + "\" y2=\"" + decimal(end.y) + "\"/>\n";
      if (graph_.directed()) heads += head(bend.value_or(from), end);
    });
    std::string out = "<g class=\"edges\" fill=\"none\" stroke=\"#5b7c99\" stroke-width=\"" + decimal(line_) +
                      "\">\n" + lines + "</g>\n";
    if (!heads.empty()) out += "<g class=\"heads\" fill=\"#5b7c99\">\n" + heads + "</g>\n";
    return out;
  }

  std::string nodes() const {
    std::string out = "<g class=\"nodes\" fill=\"#1d3557\">\n";
    for (const Point& p : nodes_)
      out +=
          "<circle cx=\"" + decimal(p.x) + "\" cy=\"" + decimal(p.y) + "\" r=\"" + decimal(dot_) + "\"/>\n";
    out += "</g>\n";
    if (dot_ < kLabelDotMin) return out;
    const double size = dot_ * (nodes_.size() > 100 ? 0.8 : 0.95);
    out += "<g class=\"numbers\" fill=\"#ffffff\" font-size=\"" + decimal(size) + "\">\n";
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      out += "<text x=\"" + decimal(nodes_[i].x) + "\" y=\"" + decimal(nodes_[i].y + 0.35 * size) + "\">" +
             std::to_string(i) + "</text>\n";
    return out + "</g>\n";
  }

 private:
  // The control point of a line that must be bent because it would cross a node or coincide with an arc back.
  std::optional<Point> bend_of(std::uint32_t i, std::uint32_t j) const {
    const Point &a = nodes_[i], &b = nodes_[j];
    bool bent = graph_.directed() && graph_.has_edge(j, i);
    for (std::size_t k = 0; !bent && graph_.edge_count() <= kBendEdgesMax && k < nodes_.size(); ++k)
      bent = k != i && k != j && distance_to_line(nodes_[k], a, b) < 0.8 * dot_;
    if (!bent) return std::nullopt;
    const double bend = std::min(kBend, bend_max_ / distance(a, b));
    return Point{(a.x + b.x) / 2 + (b.y - a.y) * bend, (a.y + b.y) / 2 - (b.x - a.x) * bend};
  }

  std::string head(const Point& from, const Point& tip) const {
    const double length = std::clamp(0.9 * dot_, 2.0, 9.0);
    const Point back = towards(tip, from, length);
    const double nx = (tip.y - back.y) * 0.38, ny = (back.x - tip.x) * 0.38;
    return "<path d=\"M" + at(tip) + " L" + at({back.x + nx, back.y + ny}) + " L" +
           at({back.x - nx, back.y - ny}) + " Z\"/>\n";
  }

  const Graph& graph_;
  std::vector<Point> nodes_;
  double bend_max_, dot_, line_;
};

std::string centered(double x, double y, double size, std::string_view weight, std::string_view text) {
  return "<text x=\"" + decimal(x) + "\" y=\"" + decimal(y) + "\" font-size=\"" + decimal(size) + "\"" +
         std::string(weight) + ">" + escape_xml(text) + "</text>\n";
}

}  // namespace

std::string to_svg(std::span<const GraphPanel> panels, const Layout& layout, std::string_view title,
                   std::string_view caption) {
  STARLING_CHECK(!panels.empty());
  const std::size_t columns = panels.size() == 1 ? 1 : std::min<std::size_t>(panels.size(), 4);
  const std::size_t rows = (panels.size() + columns - 1) / columns;
  const double panel_width = columns == 1 ? 640 : 300, margin = columns == 1 ? 40 : 28;
  const double reach = panel_width / 2 - margin;
  double tall = 0;
  for (const Point& p : layout) tall = std::max(tall, std::abs(p.y));
  const double panel_height = 2 * (std::max(tall * reach, 20.0) + margin);
  const double row_height = panel_height + (panels.front().label.empty() ? 0 : kLabelHeight);
  const double width = panel_width * static_cast<double>(columns);
  const double height = kTitleHeight + row_height * static_cast<double>(rows) + kCaptionHeight;

  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + decimal(width) + " " +
                    decimal(height) + "\" font-family=\"Helvetica, Arial, sans-serif\">\n<title>" +
                    escape_xml(title) +
                    "</title>\n"
                    "<style>\n@media (prefers-color-scheme: dark) {\n  .words { fill: #dfe7ef }\n"
                    "  .edges { stroke: #7f9bb5 }\n  .heads { fill: #7f9bb5 }\n  .nodes { fill: #a9cdf0 }\n"
                    "  .numbers { fill: #10202f }\n}\n</style>\n";
  out += "<g class=\"words\" fill=\"#1d3557\" text-anchor=\"middle\">\n" +
         centered(width / 2, 23, 17, " font-weight=\"bold\"", title) +
         centered(width / 2, height - 11, 12.5, "", caption);
  for (std::size_t k = 0; k < panels.size(); ++k) {
    if (panels[k].label.empty()) continue;
    const double x = panel_width * (static_cast<double>(k % columns) + 0.5);
    const double y = kTitleHeight + row_height * static_cast<double>(k / columns + 1) - 8;
    out += centered(x, y, 12.5, "", panels[k].label);
  }
  out += "</g>\n";
  for (std::size_t k = 0; k < panels.size(); ++k) {
    const Point middle{panel_width * (static_cast<double>(k % columns) + 0.5),
                       kTitleHeight + row_height * static_cast<double>(k / columns) + panel_height / 2};
    std::vector<Point> nodes;
    for (const Point& p : layout) nodes.push_back({middle.x + reach * p.x, middle.y + reach * p.y});
    const Picture picture(panels[k].graph, std::move(nodes), margin);
    out += "<g text-anchor=\"middle\">\n" + picture.edges() + picture.nodes() + "</g>\n";
  }
  return out + "</svg>\n";
}

}  // namespace starling::topologies

// to_svg of topologies/drawings/drawing.h.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "topologies/drawings/drawing.h"
#include "topologies/drawings/shapes.h"
#include "topologies/xml.h"

namespace starling::topologies {
namespace {

constexpr double kLabelDotMin = 6.5;  // smaller dots have no label
constexpr double kTitleHeight = 34, kCaptionHeight = 30, kLabelHeight = 24;

// With two decimals, hundredths of a pixel.
std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value == 0 ? 0.0 : value);
  return text;
}

std::string at(const Point& p) { return decimal(p.x) + " " + decimal(p.y); }

// One panel: the places of its nodes on the page, and their lines and dots.
class Picture {
 public:
  Picture(const Graph& graph, std::vector<Point> nodes, double margin)
      : nodes_(std::move(nodes)), shapes_(graph_shapes(graph, nodes_, margin)) {}

  std::string edges() const {
    std::string lines, heads;
    for (const GraphStroke& stroke : shapes_.strokes) {
      if (stroke.bend)
        lines += "<path d=\"M" + at(stroke.from) + " Q" + at(*stroke.bend) + " " + at(stroke.to) + "\"/>\n";
      else
        lines += "<line x1=\"" + decimal(stroke.from.x) + "\" y1=\"" + decimal(stroke.from.y) + "\" x2=\"" +
                 decimal(stroke.to.x) + "\" y2=\"" + decimal(stroke.to.y) + "\"/>\n";
    }
    for (const auto& [tip, left, right] : shapes_.heads)
      heads += "<path d=\"M" + at(tip) + " L" + at(left) + " L" + at(right) + " Z\"/>\n";
    std::string out = "<g class=\"edges\" fill=\"none\" stroke=\"#5b7c99\" stroke-width=\"" +
                      decimal(shapes_.line) + "\">\n" + lines + "</g>\n";
    if (!heads.empty()) out += "<g class=\"heads\" fill=\"#5b7c99\">\n" + heads + "</g>\n";
    return out;
  }

  std::string nodes() const {
    const double dot = shapes_.dot;
    std::string out = "<g class=\"nodes\" fill=\"#1d3557\">\n";
    for (const Point& p : nodes_)
      out += "<circle cx=\"" + decimal(p.x) + "\" cy=\"" + decimal(p.y) + "\" r=\"" + decimal(dot) + "\"/>\n";
    out += "</g>\n";
    if (dot < kLabelDotMin) return out;
    const double size = dot * (nodes_.size() > 100 ? 0.8 : 0.95);
    out += "<g class=\"numbers\" fill=\"#ffffff\" font-size=\"" + decimal(size) + "\">\n";
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      out += "<text x=\"" + decimal(nodes_[i].x) + "\" y=\"" + decimal(nodes_[i].y + 0.35 * size) + "\">" +
             std::to_string(i) + "</text>\n";
    return out + "</g>\n";
  }

 private:
  std::vector<Point> nodes_;
  GraphShapes shapes_;
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

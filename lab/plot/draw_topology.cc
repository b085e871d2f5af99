// draw_topology() of lab/plot/draw.h.
#include <algorithm>
#include <cmath>

#include "lab/plot/draw.h"
#include "topologies/drawings/drawing.h"
#include "topologies/drawings/layout.h"
#include "topologies/drawings/shapes.h"

namespace starling::lab {
namespace {

constexpr double kGraphMargin = 12;  // around the nodes of a panel, in points
constexpr const char* kLinkInk = "#5b7c99";
constexpr const char* kDotInk = "#1d3557";
constexpr std::size_t kPanelsInRow = 2;

void draw_panel(Canvas& canvas, const topologies::Graph& graph, const std::vector<Spot>& nodes) {
  const topologies::GraphShapes shapes =
      topologies::graph_shapes(graph, nodes, kGraphMargin, {.dot_max = canvas.font(), .line_max = 0.9});
  const Pen link{kLinkInk, shapes.line};
  for (const topologies::GraphStroke& stroke : shapes.strokes) {
    if (stroke.bend)
      canvas.curve(stroke.from, *stroke.bend, stroke.to, link);
    else
      canvas.line(std::array<Spot, 2>{{stroke.from, stroke.to}}, link);
  }
  for (const auto& head : shapes.heads) canvas.fill(head, kLinkInk);
  const std::string widest(std::to_string(nodes.size() - 1).size(), '0');
  const bool numbered = canvas.text_width(widest) < 1.7 * shapes.dot && 0.5 * canvas.font() < shapes.dot;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    canvas.circle(nodes[i], shapes.dot, kDotInk, {kDotInk, 0.2});
    if (numbered)
      canvas.text({nodes[i].x, nodes[i].y + canvas.text_middle()}, std::to_string(i),
                  {.anchor = Anchor::middle, .color = "#ffffff"});
  }
}

}  // namespace

Result<std::string> draw_topology(const topologies::Schedule& schedule, const std::string& name, Paper paper,
                                  bool keep_height) {
  const auto graph = topologies::Graph::of_period(schedule);
  if (!graph) return graph.error();
  const auto panels = topologies::panels(schedule);
  if (!panels) return panels.error();
  const topologies::Layout layout = topologies::layout(*graph, name);
  double tall = 0;
  for (const Spot& spot : layout) tall = std::max(tall, std::abs(spot.y));

  const std::size_t columns = std::min(panels->size(), kPanelsInRow);
  const auto rows = static_cast<double>((panels->size() + columns - 1) / columns);
  const double wide = kPointsPerInch * paper.width / static_cast<double>(columns);
  const double label = panels->front().label.empty() ? 0 : 1.5 * paper.font;
  double reach = wide / 2 - kGraphMargin;
  if (keep_height && tall > 0)
    reach = std::min(reach, (kPointsPerInch * paper.height / rows - label - 2 * kGraphMargin) / 2 / tall);
  if (reach < kGraphMargin)
    return Error{"the figure is too small for the graph; choose a larger --width or --height"};
  const double high = 2 * (tall * reach + kGraphMargin) + label;
  if (!keep_height) paper.height = high * rows / kPointsPerInch;
  const double room = kPointsPerInch * paper.height / rows;

  Canvas canvas(paper);
  for (std::size_t k = 0; k < panels->size(); ++k) {
    const std::size_t in_row = std::min(columns, panels->size() - k / columns * columns);
    const double left = wide * static_cast<double>(columns - in_row) / 2;
    const double x = left + wide * (static_cast<double>(k % columns) + 0.5);
    const double y = room * static_cast<double>(k / columns) + (room - label) / 2;
    std::vector<Spot> nodes;
    for (const Spot& spot : layout) nodes.push_back({x + reach * spot.x, y + reach * spot.y});
    draw_panel(canvas, (*panels)[k].graph, nodes);
    if (label > 0)
      canvas.text({x, y + (room - label) / 2 + paper.font}, (*panels)[k].label, {.anchor = Anchor::middle});
  }
  const std::string peers = std::to_string(schedule.peers()) + " peers";
  canvas.describe(name + " among " + peers,
                  panels->size() > 1
                      ? peers + ", the links of " + std::to_string(panels->size()) + " rounds"
                      : peers + ", " + std::to_string(panels->front().graph.edge_count()) + " links");
  return canvas.finish();
}

}  // namespace starling::lab

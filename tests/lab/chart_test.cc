// The chart of measured curves.
#include "lab/measure/chart.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace starling::lab {
namespace {

// Whether elements are nested and closed, and attributes are quoted. Handles the part of XML that charts use.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    std::size_t quotes = 0;
    for (const char c : tag) quotes += c == '"';
    if (quotes % 2 != 0) return false;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  for (std::size_t at = xml.find('&'); at != std::string::npos; at = xml.find('&', at + 1)) {
    const std::string entity = xml.substr(at, xml.find(';', at) - at);
    if (entity != "&amp" && entity != "&lt" && entity != "&gt") return false;
  }
  return open.empty();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// The y of every label, in the order of drawing.
std::vector<double> label_heights(const std::string& svg, const std::vector<std::string>& labels) {
  std::vector<double> heights;
  for (const std::string& label : labels) {
    const std::size_t text = svg.find(">" + label + "</text>");
    REQUIRE(text != std::string::npos);
    const std::size_t y = svg.rfind(" y=\"", text);
    heights.push_back(std::stod(svg.substr(y + 4)));
  }
  return heights;
}

Points decay(double rate, double until) {
  Points points;
  for (double x = 0; x <= until; ++x) points.emplace_back(x, std::exp(-rate * x));
  return points;
}

Chart three() {
  Chart chart;
  chart.y_title = "how much is left";
  chart.y_min = 1e-3;
  chart.caption = {"a < b & c"};
  Panel panel{"Left", "rounds", 20, {}};
  panel.series.push_back({"fast", 0, decay(2, 20), decay(1.9, 20)});
  panel.series.push_back({"slow", 1, decay(0.001, 20), {}});
  panel.series.push_back({"slower", 2, decay(0.0005, 20), {}});
  chart.panels = {panel, panel};
  return chart;
}

}  // namespace

TEST_CASE("a chart is well-formed and contains every curve, label and title") {
  const std::string svg = to_svg(three());
  REQUIRE(is_well_formed(svg));
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(count(svg, "<polyline") == 2 * 4);
  CHECK(count(svg, "stroke-dasharray") == 2);
  for (const char* text :
       {">fast<", ">slow<", ">slower<", ">Left<", ">rounds<", "how much is left", "a &lt; b &amp; c"})
    CHECK(svg.find(text) != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
}

TEST_CASE("labels have the order of the curves and do not overlap") {
  const std::vector<double> y = label_heights(to_svg(three()), {"slower", "slow", "fast"});
  CHECK(y[1] - y[0] >= 12);
  CHECK(y[2] - y[1] >= 12);
}

TEST_CASE("curves are cut at the edge of the plot") {
  Chart chart = three();
  chart.panels.resize(1);
  chart.panels[0].series = {{"beyond", 0, {{0, 1}, {10, 1e-30}, {500, 1e-30}}, {}}};
  const std::string svg = to_svg(chart);
  const std::size_t begin = svg.find("<polyline points=\"") + 18;
  const std::string points = svg.substr(begin, svg.find('"', begin) - begin);
  // From the upper left corner straight down to the bottom: a tenth of the way to x = 10.
  CHECK(points == "66.0,34.0 85.0,374.0");
}

TEST_CASE("the chart of a comparison has both panels and marks exact averages") {
  Compared ring;
  ring.name = "ring";
  ring.analysis.round_factor = 0.9;
  ring.analysis.consensus_factor = 0.99;
  ring.pairwise.seeds = 4;
  for (std::uint64_t k = 0; k <= 1000; k += 10) {
    ring.pairwise.exchanges.push_back(k);
    ring.pairwise.v.push_back(std::pow(0.99, k));
  }
  for (int r = 0; r <= 100; ++r) ring.lock_step.v.push_back(std::pow(0.9, r));
  Compared complete = ring;
  complete.name = "complete";
  complete.analysis.round_factor = 0;
  complete.lock_step = {{1, 1e-31}, 0.0, 1, 1e-16};
  const std::vector<Compared> both{ring, complete};
  const Chart chart = consensus_chart(both, 8, 7);
  REQUIRE(chart.panels.size() == 2);
  CHECK(chart.panels[0].series[0].label == "ring");
  CHECK(chart.panels[1].series[1].label == "complete (exact after 1)");
  // The prediction coincides with a curve that decays as predicted.
  const auto& dashed = chart.panels[0].series[0].dashed;
  REQUIRE(dashed.size() == 2);
  CHECK(dashed[0].first == Approx(0).margin(1e-9));
  CHECK(dashed[0].second == Approx(1));
  CHECK(chart.panels[1].series[1].dashed.empty());
  const std::string svg = to_svg(chart);
  CHECK(is_well_formed(svg));
  CHECK(svg.find("8 peers") != std::string::npos);
  CHECK(svg.find("over 4 worlds") != std::string::npos);
}

}  // namespace starling::lab

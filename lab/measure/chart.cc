#include "lab/measure/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "lab/palette.h"
#include "topologies/xml.h"

namespace starling::lab {
namespace {

using topologies::escape_xml;

// In pixels.
constexpr double kPlotWidth = 380, kPlotHeight = 340, kLeft = 66, kTop = 34, kAxis = 52;
constexpr double kLine = 15;     // between lines of text
constexpr double kLabelAt = 14;  // from the plot's right edge to the samples of the labels
constexpr double kSample = 22;   // their length
constexpr double kLetter = 6;    // of a label, in the mean

std::string text_at(double x, double y, const std::string& attributes, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, attributes, escape_xml(text));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"{}/>\n", x1, y1, x2, y2,
                     attributes);
}

std::string points_attribute(const Points& points) {
  std::string list;
  for (const auto& [x, y] : points) list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x, y);
  return " points=\"" + list + "\"";
}

// The step between ticks: 1, 2 or 5 times a power of ten, about six of them.
double tick_step(double length) {
  const double rough = length / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= rough) return step * power;
  }
  return 10 * power;
}

std::string marker(std::size_t style, double x, double y) {
  const std::string look = fmt::format(" fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"1.4\"",
                                       kKindColors[style % kKindColors.size()]);
  const auto path = [&](std::initializer_list<std::pair<double, double>> corners) {
    Points points;
    for (const auto& [dx, dy] : corners) points.emplace_back(x + dx, y + dy);
    return "<polygon" + points_attribute(points) + look + "/>\n";
  };
  switch (style % 5) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\"{}/>\n", x, y, look);
    case 1:
      return path({{-2.9, -2.9}, {2.9, -2.9}, {2.9, 2.9}, {-2.9, 2.9}});
    case 2:
      return path({{0, -3.9}, {3.7, 2.7}, {-3.7, 2.7}});
    case 3:
      return path({{0, -4.2}, {4.2, 0}, {0, 4.2}, {-4.2, 0}});
    default:
      return path({{0, 3.9}, {3.7, -2.7}, {-3.7, -2.7}});
  }
}

// One panel's plot, whose upper left corner is (left, kTop).
class Plot {
 public:
  Plot(const Panel& panel, double y_min, double left)
      : panel_(panel), decades_(-std::log10(y_min)), left_(left) {
    STARLING_CHECK(panel.x_max > 0 && decades_ > 0);
  }

  std::string draw() const {
    std::string out = text_at(left_, kTop - 12, " font-weight=\"bold\" font-size=\"13\"", panel_.title);
    out += axes();
    std::vector<Label> labels;
    for (const Series& series : panel_.series) {
      const std::string color =
          std::string(" fill=\"none\" stroke=\"") + kKindColors[series.style % kKindColors.size()] + "\"";
      out += polyline(cut(series.dashed),
                      color + " stroke-width=\"1.2\" stroke-dasharray=\"5 4\" stroke-opacity=\"0.8\"");
      const Points seen = cut(series.points);
      out += polyline(seen, color + " stroke-width=\"1.8\" stroke-linejoin=\"round\"");
      if (!seen.empty()) labels.push_back({&series, seen.back()});
    }
    // Drawn above the lines, at different places for each curve.
    for (const Series& series : panel_.series) out += markers(series, cut(series.points));
    return out + legend(std::move(labels));
  }

 private:
  struct Label {
    const Series* series;
    std::pair<double, double> end;  // of the curve, in pixels
    double y = 0;
  };

  double right() const { return left_ + kPlotWidth; }
  static double bottom() { return kTop + kPlotHeight; }
  double x_of(double x) const { return left_ + kPlotWidth * x / panel_.x_max; }
  double y_of(double y) const { return kTop - kPlotHeight * std::log10(y) / decades_; }

  // In pixels, cut at the right edge and at the bottom.
  Points cut(const Points& points) const {
    Points out;
    for (const auto& [px, py] : points) {
      std::pair<double, double> at{x_of(px), std::max(y_of(std::max(py, 1e-300)), kTop - 0.0)};
      if (out.empty()) {
        if (at.first > right() || at.second > bottom()) return out;
        out.push_back(at);
        continue;
      }
      const auto [fx, fy] = out.back();
      double share = 1;
      if (at.first > right()) share = std::min(share, (right() - fx) / (at.first - fx));
      if (at.second > bottom()) share = std::min(share, (bottom() - fy) / (at.second - fy));
      out.emplace_back(fx + share * (at.first - fx), fy + share * (at.second - fy));
      if (share < 1) break;
    }
    return out;
  }

  static std::string polyline(const Points& points, const std::string& attributes) {
    if (points.size() < 2) return "";
    return "<polyline" + points_attribute(points) + attributes + "/>\n";
  }

  std::string markers(const Series& series, const Points& seen) const {
    if (seen.size() < 2) return "";
    constexpr int kMarkers = 4;
    double length = 0;
    for (std::size_t i = 1; i < seen.size(); ++i) length += distance(seen[i - 1], seen[i]);
    const double shift = 0.2 + 0.6 * static_cast<double>(series.style % 5) / 5;
    std::string out;
    double gone = 0;
    int drawn = 0;
    for (std::size_t i = 1; i < seen.size() && drawn < kMarkers; ++i) {
      const double step = distance(seen[i - 1], seen[i]);
      for (double due = length * (drawn + shift) / kMarkers;
           drawn < kMarkers && gone + step >= due && step > 0; due = length * (drawn + shift) / kMarkers) {
        const double share = (due - gone) / step;
        out += marker(series.style, seen[i - 1].first + share * (seen[i].first - seen[i - 1].first),
                      seen[i - 1].second + share * (seen[i].second - seen[i - 1].second));
        ++drawn;
      }
      gone += step;
    }
    return out;
  }
  static double distance(std::pair<double, double> a, std::pair<double, double> b) {
    return std::hypot(a.first - b.first, a.second - b.second);
  }

  std::string axes() const {
    const std::string grid = " stroke=\"#e4e4e4\" stroke-width=\"0.8\"",
                      ink = " stroke=\"#333333\" stroke-width=\"1\"";
    std::string out;
    for (int k = 0; k <= static_cast<int>(decades_ + 1e-9); ++k) {
      const double y = y_of(std::pow(10, -k));
      out += line(left_, y, right(), y, grid);
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left_ - 8, y + 4,
                         k == 0 ? "1" : fmt::format("10<tspan dy=\"-5\" font-size=\"8.5\">−{}</tspan>", k));
    }
    const double step = tick_step(panel_.x_max);
    for (int k = 0; k * step <= panel_.x_max * (1 + 1e-9); ++k) {
      const double x = x_of(k * step);
      out += line(x, kTop, x, bottom(), grid) + line(x, bottom(), x, bottom() + 4, ink);
      out += text_at(x, bottom() + 17, " text-anchor=\"middle\"", fmt::format("{:g}", k * step));
    }
    out += line(left_, kTop, left_, bottom(), ink) + line(left_, bottom(), right(), bottom(), ink);
    return out + text_at((left_ + right()) / 2, bottom() + 38, " text-anchor=\"middle\" font-size=\"12\"",
                         panel_.x_title);
  }

  // A label per curve, at the height of its right end if there is room. Curves that leave through the bottom
  // have their labels below the others, the last to leave first.
  std::string legend(std::vector<Label> labels) const {
    const auto place = [](const Label& label) {  // from the top
      const bool below = label.end.second > bottom() - 0.5;
      return std::pair(below, below ? -label.end.first : label.end.second);
    };
    std::stable_sort(labels.begin(), labels.end(),
                     [&](const Label& a, const Label& b) { return place(a) < place(b); });
    double limit = bottom();
    for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
      label->y = std::min(label->end.second, limit);
      limit = label->y - kLine;
    }
    if (!labels.empty() && labels.front().y < kTop) {  // more than fit: begin at the top
      double at = kTop;
      for (Label& label : labels) {
        label.y = std::max(label.y, at);
        at = label.y + kLine;
      }
    }
    std::string out;
    for (const Label& label : labels) {
      const std::string color =
          std::string(" stroke=\"") + kKindColors[label.series->style % kKindColors.size()] + "\"";
      const double x = right() + kLabelAt;
      if (label.end.first >= right() - 0.5)  // from the curve's end to its label
        out += line(right(), label.end.second, x, label.y, color + " stroke-width=\"0.8\"");
      out += line(x, label.y, x + kSample, label.y, color + " stroke-width=\"1.8\"");
      out += marker(label.series->style, x + kSample / 2, label.y);
      out += text_at(x + kSample + 6, label.y + 4, "", label.series->label);
    }
    return out;
  }

  const Panel& panel_;
  double decades_;
  double left_;
};

}  // namespace

std::string to_svg(const Chart& chart) {
  std::size_t longest = 0;
  for (const Panel& panel : chart.panels)
    for (const Series& series : panel.series) longest = std::max(longest, series.label.size());
  const double panel_width =
      kLeft + kPlotWidth + kLabelAt + kSample + 20 + kLetter * static_cast<double>(longest);
  const double width = panel_width * static_cast<double>(chart.panels.size());
  const double caption_at = kTop + kPlotHeight + kAxis + kLine;
  const double height = caption_at + kLine * static_cast<double>(chart.caption.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.1f}\" height=\"{1:.1f}\" viewBox=\"0 0 {0:.1f} "
      "{1:.1f}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#222222\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height);
  for (std::size_t p = 0; p < chart.panels.size(); ++p) {
    const double left = panel_width * static_cast<double>(p) + kLeft;
    out += Plot(chart.panels[p], chart.y_min, left).draw();
    if (p == 0)
      out += fmt::format(
          "<text x=\"18\" y=\"{0:.1f}\" text-anchor=\"middle\" font-size=\"12\" transform=\"rotate(-90 18 "
          "{0:.1f})\">{1}</text>\n",
          kTop + kPlotHeight / 2, escape_xml(chart.y_title));
  }
  for (std::size_t l = 0; l < chart.caption.size(); ++l)
    out += text_at(kLeft, caption_at + kLine * static_cast<double>(l), "", chart.caption[l]);
  return out + "</svg>\n";
}

// ---- consensus ----

namespace {

// sqrt(V) by x.
Points curve_of(const Pairwise& pairwise, std::uint32_t peers) {
  Points points;
  for (std::size_t p = 0; p < pairwise.v.size(); ++p)
    points.emplace_back(static_cast<double>(pairwise.exchanges[p]) / peers, std::sqrt(pairwise.v[p]));
  return points;
}

Points curve_of(const LockStep& lock_step) {
  Points points;
  for (std::size_t r = 0; r < lock_step.v.size(); ++r)
    points.emplace_back(static_cast<double>(r), std::sqrt(lock_step.v[r]));
  return points;
}

// A line with the predicted slope through the curve's end, back to the start. It begins below the curve,
// because faster modes contribute at first.
Points asymptote(const Points& curve, std::optional<double> factor, double spacing_of_factor) {
  if (!factor || *factor <= 0 || *factor >= 1 || curve.size() < 2 || curve.back().second <= 0) return {};
  const auto [x, y] = curve.back();
  const double rate = -std::log(*factor) / 2 / spacing_of_factor;  // of sqrt(V), per unit of x
  const double start = y * std::exp(rate * x);
  if (start <= 1) return {{0, start}, {x, y}};
  return {{std::log(start) / rate, 1}, {x, y}};
}

double reached(const Points& curve, double y) {
  for (const auto& point : curve) {
    if (point.second <= y) return point.first;
  }
  return std::numeric_limits<double>::infinity();
}

// The x at which half of the curves have fallen to y, and a quarter more.
double right_edge(const std::vector<Series>& series, double y, double least) {
  std::vector<double> ends;
  double longest = least;
  for (const Series& one : series) {
    ends.push_back(reached(one.points, y));
    if (!one.points.empty()) longest = std::max(longest, one.points.back().first);
  }
  std::sort(ends.begin(), ends.end());
  const double middle = ends.empty() ? least : ends[ends.size() / 2];
  return std::isfinite(middle) ? std::max(least, 1.25 * middle) : longest;
}

}  // namespace

Chart consensus_chart(std::span<const Compared> topologies, std::uint32_t peers, std::uint64_t seed) {
  Chart chart;
  chart.y_title = "disagreement √(V / V at the start)";
  // Whole decades, down to the end of the asynchronous curves.
  chart.y_min = std::pow(10, std::ceil(std::log10(std::sqrt(pairwise_floor(peers)))));
  Panel pairwise{"Asynchronous pairwise gossip", "exchanges begun per peer", 1, {}};
  Panel lock_step{"Lock-step rounds", "rounds", 1, {}};
  std::uint64_t seeds_min = UINT64_MAX, seeds_max = 0;
  for (std::size_t k = 0; k < topologies.size(); ++k) {
    const Compared& one = topologies[k];
    Series async{one.name, k, curve_of(one.pairwise, peers), {}};
    async.dashed = asymptote(async.points, one.analysis.consensus_factor, 1.0 / peers);
    pairwise.series.push_back(std::move(async));
    Series rounds{one.name, k, curve_of(one.lock_step), {}};
    rounds.dashed = asymptote(rounds.points, one.analysis.round_factor, 1);
    if (one.lock_step.exact_after)
      rounds.label += " (exact after " + std::to_string(*one.lock_step.exact_after) + ")";
    lock_step.series.push_back(std::move(rounds));
    seeds_min = std::min(seeds_min, one.pairwise.seeds);
    seeds_max = std::max(seeds_max, one.pairwise.seeds);
  }
  pairwise.x_max = right_edge(pairwise.series, chart.y_min, 1);
  lock_step.x_max = right_edge(lock_step.series, chart.y_min, 4);
  chart.panels = {std::move(pairwise), std::move(lock_step)};
  const std::string seeds = seeds_min == seeds_max
                                ? std::to_string(seeds_max)
                                : std::to_string(seeds_min) + " to " + std::to_string(seeds_max);
  chart.caption = {
      std::to_string(peers) + " peers. V = Σ |x − mean|² from random vectors. Left: mean of V over " + seeds +
          " worlds (seed " + std::to_string(seed) + "), Poisson clocks; right: one run.",
      "Solid: measured. Dashed: the rate predicted for the long run, laid through the measured curve's end."};
  return chart;
}

}  // namespace starling::lab

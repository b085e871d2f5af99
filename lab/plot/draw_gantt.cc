// draw_gantt() of lab/plot/draw.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "lab/plot/axis.h"
#include "lab/plot/draw.h"
#include "lab/plot/gantt.h"
#include "lab/plot/strokes.h"

namespace starling::lab {
namespace {

using Pass = training::StageTask::Kind;

constexpr double kChartMargin = 4, kLabelGap = 5;            // points
constexpr double kLane = 1.9, kStrip = 1.5, kBetween = 0.9;  // heights of parts of a row, times the font
constexpr double kLeastBox = 0.8,
                 kLeastFramed = 2.5;  // widths in points: of a box, and of one with a white edge
constexpr double kLeastWide = 144;    // of the lanes, in points
constexpr const char* kLaneInk = "#f3f3f3";
constexpr const char* kChartInk = "#333333";
constexpr const char* kChartGrid = "#e2e2e2";
constexpr const char* kKeptInk = "#44aa99";
constexpr const char* kVersionInk = "#882255";
constexpr std::array<double, 2> kVersionDashes = {3, 1.6};

struct PassLook {
  const char* color;
  const char* letters;
  const char* name;
};
constexpr PassLook look_of(Pass kind) {
  switch (kind) {
    case Pass::forward:
      return {"#88ccee", "#222222", "forward pass"};
    case Pass::backward:
      return {"#332288", "#ffffff", "backward pass"};
    case Pass::update:
      break;
  }
  return {"#b8a030", "#222222", "update"};
}

std::array<Spot, 4> corners_of(double left, double top, double right, double bottom) {
  return {{{left, top}, {right, top}, {right, bottom}, {left, bottom}}};
}

class GanttDrawing {
 public:
  GanttDrawing(const GanttChart& chart, const Paper& paper) : chart_(chart), canvas_(paper) {
    double widest = 0;
    for (const GanttRow& row : chart_.rows) widest = std::max(widest, canvas_.text_width(row.label));
    left_ = kChartMargin + widest + kLabelGap;
    right_ = canvas_.width() - kChartMargin - canvas_.font();
    // Milliseconds or microseconds if the numbers would be small.
    for (const auto& [factor, unit] : {std::pair{1.0, "s"}, {1e3, "ms"}, {1e6, "µs"}}) {
      factor_ = factor;
      unit_ = unit;
      if (chart_.end * factor >= 2) break;
    }
  }

  // In points: title, legend, rows, axis.
  static double height_of(const GanttChart& chart, double font) {
    const auto rows = static_cast<double>(chart.rows.size());
    return 2 * kChartMargin + 3.2 * font + rows * (kLane + kStrip + kBetween) * font + 2.8 * font +
           (chart.left_out > 0 ? 1.4 * font : 0);
  }

  Result<std::string> draw() {
    if (right_ - left_ < kLeastWide)
      return Error{"the chart is too narrow for its text; choose a larger --width or a smaller --font"};
    const double font = canvas_.font();
    canvas_.text({left_, kChartMargin + 0.9 * font}, chart_.title);
    draw_legend(kChartMargin + 2.4 * font);
    top_ = kChartMargin + 3.2 * font;
    bottom_ = top_ + static_cast<double>(chart_.rows.size()) * row_height();
    draw_axis();
    for (std::size_t row = 0; row < chart_.rows.size(); ++row)
      draw_row(chart_.rows[row], top_ + static_cast<double>(row) * row_height());
    if (chart_.left_out > 0)
      canvas_.text({left_, bottom_ + 3.6 * font}, fmt::format("{} rows are left out", chart_.left_out));
    canvas_.describe(chart_.title, chart_.text);
    return canvas_.finish();
  }

 private:
  double row_height() const { return (kLane + kStrip + kBetween) * canvas_.font(); }
  double place(double seconds) const {
    return left_ + (right_ - left_) * std::min(1.0, seconds / chart_.end);
  }
  // The most that a strip shows.
  double most() const { return static_cast<double>(std::max(chart_.most_kept, chart_.most_versions)); }

  void draw_legend(double y) {
    double x = left_;
    const double font = canvas_.font();
    const auto entry = [&](std::string_view name) {
      canvas_.text({x + 1.6 * font, y}, name);
      x += 1.6 * font + canvas_.text_width(name) + 1.4 * font;
    };
    const auto sample = [&](std::string_view color, double opacity) {
      canvas_.fill(corners_of(x, y - 0.75 * font, x + 1.2 * font, y + 0.05 * font), color, opacity);
    };
    for (const Pass kind : {Pass::forward, Pass::backward, Pass::update}) {
      if (kind == Pass::update && !chart_.updates) continue;
      sample(look_of(kind).color, 1);
      entry(look_of(kind).name);
    }
    sample(kKeptInk, 0.55);
    entry("micro-batches kept");
    if (chart_.most_versions < 2) return;
    const double middle = y - canvas_.text_middle();
    canvas_.line(std::array<Spot, 2>{{{x, middle}, {x + 1.2 * font, middle}}},
                 {kVersionInk, kCurveWidth, kVersionDashes});
    entry("versions of the weights");
  }

  void draw_axis() {
    const double font = canvas_.font();
    const AxisScale scale{0, factor_ * chart_.end, false};
    const auto most = static_cast<std::size_t>(std::max(2.0, (right_ - left_) / (6 * font)));
    for (const AxisTick& tick : axis_ticks(scale, most)) {
      if (tick.label.empty()) continue;
      const double x = left_ + (right_ - left_) * scale.place(tick.at);
      canvas_.line(std::array<Spot, 2>{{{x, top_}, {x, bottom_ + 2}}}, {kChartGrid, 0.5});
      canvas_.text({x, bottom_ + 2 + font}, tick.label,
                   {.anchor = Anchor::middle, .exponent = tick.exponent});
    }
    canvas_.text({(left_ + right_) / 2, bottom_ + 2 + 2.2 * font}, "time (" + unit_ + ")",
                 {.anchor = Anchor::middle});
    canvas_.line(std::array<Spot, 2>{{{left_, bottom_}, {right_, bottom_}}}, {kChartInk, 0.7});
  }

  void draw_row(const GanttRow& row, double top) {
    const double font = canvas_.font(), lane = top + kLane * font;
    canvas_.fill(corners_of(left_, top, right_, lane), kLaneInk);
    canvas_.text({left_ - kLabelGap, (top + lane) / 2 + canvas_.text_middle()}, row.label,
                 {.anchor = Anchor::end});
    for (const GanttBox& box : row.boxes) {
      const PassLook look = look_of(box.kind);
      const double from = place(box.begin), to = place(box.end);
      canvas_.fill(corners_of(from, top, std::max(to, from + kLeastBox), lane), look.color);
      if (to - from > kLeastFramed)
        canvas_.line(std::array<Spot, 2>{{{to, top}, {to, lane}}}, {kPaperWhite, 0.5});
      if (box.kind == Pass::update) continue;
      const std::string number = std::to_string(box.number);
      if (canvas_.text_width(number) + 2 < to - from)
        canvas_.text({(from + to) / 2, (top + lane) / 2 + canvas_.text_middle()}, number,
                     {.anchor = Anchor::middle, .color = look.letters});
    }
    draw_strip(row, lane + 0.25 * font, lane + kStrip * font);
  }

  // Steps below a lane: what the replica keeps, from none at the bottom to the chart's most at the top.
  void draw_strip(const GanttRow& row, double top, double bottom) {
    std::vector<Spot> kept{{left_, bottom}}, versions;
    const auto height = [&](std::size_t count) {
      return most() > 0 ? bottom - (bottom - top) * static_cast<double>(count) / most() : bottom;
    };
    for (std::size_t i = 0; i < row.steps.size(); ++i) {
      const GanttStep& step = row.steps[i];
      const double from = place(step.seconds);
      const double to = i + 1 < row.steps.size() ? place(row.steps[i + 1].seconds) : right_;
      kept.insert(kept.end(), {{from, height(step.kept)}, {to, height(step.kept)}});
      versions.insert(versions.end(), {{from, height(step.versions)}, {to, height(step.versions)}});
    }
    kept.push_back({right_, bottom});
    canvas_.fill(kept, kKeptInk, 0.55);
    if (chart_.most_versions > 1) canvas_.line(versions, {kVersionInk, 0.8, kVersionDashes});
    canvas_.line(std::array<Spot, 2>{{{left_, bottom}, {right_, bottom}}}, {kChartGrid, 0.5});
    std::size_t most_kept = 0;
    for (const GanttStep& step : row.steps) most_kept = std::max(most_kept, step.kept);
    canvas_.text({left_ - kLabelGap, bottom}, fmt::format("keeps {}", most_kept),
                 {.anchor = Anchor::end, .color = "#666666"});
  }

  const GanttChart& chart_;
  Canvas canvas_;
  double left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;
  double factor_ = 1;
  std::string unit_;
};

}  // namespace

Result<std::string> draw_gantt(const GanttChart& chart, Paper paper) {
  if (chart.rows.empty() || !(chart.end > 0)) return Error{"a pipeline that takes no time has no chart"};
  paper.height = GanttDrawing::height_of(chart, paper.font) / kPointsPerInch;
  return GanttDrawing(chart, paper).draw();
}

}  // namespace starling::lab

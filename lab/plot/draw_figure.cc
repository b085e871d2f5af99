// draw_figure() of lab/plot/draw.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lab/plot/axis.h"
#include "lab/plot/draw.h"
#include "lab/plot/legend.h"
#include "lab/plot/strokes.h"

namespace starling::lab {
namespace {

constexpr double kPaperMargin = 2.5, kTickLength = 2.5, kTickGap = 2, kTitleGap = 2.5;  // points
constexpr double kLeastPlot = 36;  // width and height of a plot that can be read, in points
constexpr std::array<double, 2> kPredictedDashes = {3, 2};
constexpr const char* kAxisInk = "#333333";
constexpr const char* kGridInk = "#e2e2e2";

class FigureDrawing {
 public:
  // Into the canvas or its frame. `beside`: the legend is elsewhere.
  FigureDrawing(const PaperFigure& figure, Canvas& canvas, bool beside = false)
      : figure_(figure),
        canvas_(canvas),
        legend_(canvas_, beside ? std::vector<LegendEntry>() : entries(figure), samples(figure)) {}

  static Legend legend_of(const PaperFigure& figure, Canvas& canvas) {
    return Legend(canvas, entries(figure), samples(figure));
  }

  Status draw() {
    set_scales();
    choose_lean();
    if (Status placed = place_plot(); !placed) return placed;
    draw_grid();
    draw_data();
    draw_axes();
    if (legend_inside_) legend_.draw_inside(*legend_inside_);
    if (!legend_inside_ && !legend_.empty()) legend_.draw_above(kPaperMargin + title_height());
    return Done{};
  }

 private:
  static bool has_predictions(const PaperFigure& figure) {
    return std::ranges::any_of(figure.lines, [](const FigureLine& line) { return !line.predicted.empty(); });
  }
  static LegendSamples samples(const PaperFigure& figure) {
    if (!figure.x.categories.empty()) return LegendSamples::markers;
    return has_predictions(figure) ? LegendSamples::solid : LegendSamples::dashed;
  }
  static std::vector<LegendEntry> entries(const PaperFigure& figure) {
    std::vector<LegendEntry> all;
    if (figure.lines.size() > 1 || has_predictions(figure))
      for (std::size_t k = 0; k < figure.lines.size(); ++k) all.push_back({figure.lines[k].label, k});
    if (has_predictions(figure)) all.push_back({"predicted", std::nullopt});
    return all;
  }

  // ---- scales ----

  void set_scales();
  static AxisScale scale_over(std::vector<double> values, bool log, double room);

  // ---- the places of things ----

  double title_height() const { return figure_.title.empty() ? 0 : 1.6 * canvas_.font(); }
  Status place_plot();
  Status fit_ticks();
  bool x_ticks_fit(const std::vector<AxisTick>& ticks) const;
  std::vector<AxisTick> category_ticks() const;
  void choose_lean();
  double x_labels_height() const;
  Spot spot(double x, double y) const {
    return {plot_.left + plot_.width() * x_.place(x), plot_.bottom - plot_.height() * y_.place(y)};
  }
  Spot kind_spot(std::size_t kind, const FigurePoint& point, double y) const;
  std::vector<Spot> taken_spots() const;

  // ---- drawing ----

  void draw_grid();
  void draw_axes();
  void draw_x_label(const AxisTick& tick);
  void draw_data();
  void draw_band(std::size_t kind);
  void draw_curve(std::size_t kind);
  void draw_markers_along(std::size_t kind);
  void draw_points(std::size_t kind);
  Pen pen_of(std::size_t kind) const {
    return {color_of_kind(kind), kCurveWidth,
            has_predictions(figure_) ? std::span<const double>() : dashes_of_kind(kind)};
  }

  const PaperFigure& figure_;
  Canvas& canvas_;
  Legend legend_;
  AxisScale x_, y_;
  PlotArea plot_;
  std::vector<AxisTick> x_ticks_, y_ticks_;
  double lean_ = 0;  // of the labels of categories, in degrees
  std::optional<PlotArea> legend_inside_;
};

// A scale over the values, with this share of free room at both ends.
AxisScale FigureDrawing::scale_over(std::vector<double> values, bool log, double room) {
  const auto [least, most] = std::ranges::minmax_element(values);
  AxisScale scale{*least, *most, log};
  if (log) {
    if (!(scale.low < scale.high)) scale = {*least / 1.5, *most * 1.5, log};
    const double factor = std::pow(scale.high / scale.low, room);
    return {scale.low / factor, scale.high * factor, log};
  }
  if (!(scale.low < scale.high)) {
    const double around = *least == 0 ? 1 : std::abs(*least) * 0.1;
    scale = {*least - around, *most + around, log};
  }
  const double more = room * (scale.high - scale.low);
  return {scale.low - more, scale.high + more, log};
}

void FigureDrawing::set_scales() {
  std::vector<double> xs = figure_.x.shown, ys = figure_.y.shown;
  for (const FigureLine& line : figure_.lines) {
    for (const FigurePoint& point : line.points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
      if (!point.spread) continue;
      ys.push_back(point.spread->low);
      ys.push_back(point.spread->high);
    }
    for (const auto& [x, y] : line.predicted) ys.push_back(y);
  }
  if (figure_.y.log) std::erase_if(ys, [](double y) { return y <= 0; });
  if (!figure_.x.categories.empty()) {
    x_ = {-0.5, static_cast<double>(figure_.x.categories.size()) - 0.5, false};
  } else {
    const double least = *std::ranges::min_element(xs), most = *std::ranges::max_element(xs);
    if (figure_.curves && !figure_.x.log && least > 0 && least < 0.25 * most) xs.push_back(0);
    x_ = scale_over(std::move(xs), figure_.x.log, figure_.curves ? 0 : 0.06);
  }
  y_ = scale_over(std::move(ys), figure_.y.log, 0.05);
}

// ---- the places of things ----

Status FigureDrawing::place_plot() {
  const double font = canvas_.font();
  const auto width_of = [&](const AxisTick& tick) { return canvas_.text_width(tick.label, tick.exponent); };
  double above = kPaperMargin + title_height() + 0.6 * font;  // half of the highest number
  for (const bool outside : {false, true}) {
    if (outside) {
      const auto height = legend_.height_above();
      if (!height) return height.error();
      above = kPaperMargin + title_height() + *height + 0.5 * font;
    }
    plot_ = {0, above, canvas_.width() - kPaperMargin, 0};
    plot_.bottom =
        canvas_.height() - kPaperMargin - 1.3 * font - kTitleGap - x_labels_height() - kTickLength - kTickGap;
    if (plot_.height() < kLeastPlot) break;
    y_ticks_ =
        axis_ticks(y_, std::max<std::size_t>(2, static_cast<std::size_t>(plot_.height() / (2.2 * font))));
    double widest = 0;
    for (const AxisTick& tick : y_ticks_) widest = std::max(widest, width_of(tick));
    plot_.left = kPaperMargin + 1.25 * font + kTitleGap + widest + kTickGap + kTickLength;
    if (const Status fitted = fit_ticks(); !fitted) return fitted;
    if (legend_.empty()) return Done{};
    if (!outside) legend_inside_ = legend_.place_inside(plot_, taken_spots());
    if (legend_inside_ || outside) break;
  }
  if (plot_.height() < kLeastPlot || plot_.width() < kLeastPlot)
    return Error{
        "the figure is too small for its text; choose a larger --width or --height, or a smaller --font"};
  const bool titled = canvas_.text_width(figure_.y.title) <= canvas_.height() - 2 * kPaperMargin &&
                      canvas_.text_width(figure_.x.title) <= canvas_.width() - 2 * kPaperMargin;
  if (!titled)
    return Error{"the title of an axis is longer than the figure; choose a shorter --x-label or --y-label"};
  return Done{};
}

// Chooses the numbers at the x axis and moves the right edge so that the last one is not cut.
Status FigureDrawing::fit_ticks() {
  if (!figure_.x.categories.empty()) {
    x_ticks_ = category_ticks();
    return Done{};
  }
  for (std::size_t most = 9; most >= 2; --most) {
    x_ticks_ = axis_ticks(x_, most);
    double right = canvas_.width() - kPaperMargin;
    for (const AxisTick& tick : x_ticks_) {
      const double beyond = canvas_.text_width(tick.label, tick.exponent) / 2;
      const double at = x_.place(tick.at);  // at the plot's left edge plus this share of its width
      if (at > 0)
        right = std::min(right, plot_.left + (canvas_.width() - kPaperMargin - beyond - plot_.left) / at);
    }
    plot_.right = right;
    if (x_ticks_fit(x_ticks_)) return Done{};
  }
  return Done{};
}

std::vector<AxisTick> FigureDrawing::category_ticks() const {
  std::vector<AxisTick> ticks;
  for (std::size_t i = 0; i < figure_.x.categories.size(); ++i)
    ticks.push_back({static_cast<double>(i), figure_.x.categories[i], ""});
  return ticks;
}

// Whether there is room between neighboring labels.
bool FigureDrawing::x_ticks_fit(const std::vector<AxisTick>& ticks) const {
  double end = -INFINITY;
  for (const AxisTick& tick : ticks) {
    if (tick.label.empty()) continue;
    const double half = canvas_.text_width(tick.label, tick.exponent) / 2, at = spot(tick.at, y_.low).x;
    if (at - half < end + 0.6 * canvas_.font()) return false;
    end = at + half;
  }
  return true;
}

// Labels of categories lean if they do not fit side by side, and are upright if they would then begin to the
// left of the paper.
void FigureDrawing::choose_lean() {
  const auto categories = static_cast<double>(figure_.x.categories.size());
  const double left = 5 * canvas_.font(), room = (canvas_.width() - left) / std::max(1.0, categories);
  lean_ = 0;
  for (std::size_t i = 0; i < figure_.x.categories.size(); ++i) {
    const double width = canvas_.text_width(figure_.x.categories[i]);
    const double place = left + room * (static_cast<double>(i) + 0.5);
    const double needed = width + 0.6 * canvas_.font() < room ? 0 : 0.87 * width < place ? 30 : 90;
    lean_ = std::max(lean_, needed);
  }
}

double FigureDrawing::x_labels_height() const {
  double longest = 0;
  for (const std::string& category : figure_.x.categories)
    longest = std::max(longest, canvas_.text_width(category));
  return canvas_.font() + (lean_ == 0 ? 0 : lean_ == 30 ? longest / 2 : longest - 0.5 * canvas_.font());
}

// On an axis of categories the kinds are side by side; on a numeric one they are a little apart, so that
// their error bars do not hide each other.
Spot FigureDrawing::kind_spot(std::size_t kind, const FigurePoint& point, double y) const {
  if (figure_.curves) return spot(point.x, y);
  const auto kinds = static_cast<double>(figure_.lines.size());
  const double shift = static_cast<double>(kind) - (kinds - 1) / 2;
  if (!figure_.x.categories.empty()) return spot(point.x + shift * 0.6 / kinds, y);
  Spot place = spot(point.x, y);
  place.x += shift * std::min(1.5, 6 / kinds);
  return place;
}

// Where the data are: places along the lines, not farther apart than the legend's margin.
std::vector<Spot> FigureDrawing::taken_spots() const {
  std::vector<Spot> taken;
  const auto along = [&](const std::vector<Spot>& line) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      taken.push_back(line[i]);
      if (i == 0) continue;
      const Spot &a = line[i - 1], &b = line[i];
      const double steps = std::ceil(std::hypot(b.x - a.x, b.y - a.y) / 2);
      for (double k = 1; k < steps; ++k)
        taken.push_back({a.x + (b.x - a.x) * k / steps, a.y + (b.y - a.y) * k / steps});
    }
  };
  for (std::size_t k = 0; k < figure_.lines.size(); ++k) {
    std::vector<Spot> middle, predicted;
    for (const FigurePoint& point : figure_.lines[k].points) {
      middle.push_back(kind_spot(k, point, point.y));
      if (point.spread)
        along({kind_spot(k, point, point.spread->low), kind_spot(k, point, point.spread->high)});
    }
    for (const auto& [x, y] : figure_.lines[k].predicted) predicted.push_back(spot(x, y));
    along(middle);
    along(predicted);
  }
  return taken;
}

// ---- drawing ----

void FigureDrawing::draw_grid() {
  const Pen pen{kGridInk, 0.5};
  for (const AxisTick& tick : y_ticks_) {
    const double y = spot(x_.low, tick.at).y;
    if (!tick.label.empty()) canvas_.line(std::array<Spot, 2>{{{plot_.left, y}, {plot_.right, y}}}, pen);
  }
  for (const AxisTick& tick : x_ticks_) {
    const double x = spot(tick.at, y_.low).x;
    if (!tick.label.empty() && figure_.x.categories.empty())
      canvas_.line(std::array<Spot, 2>{{{x, plot_.top}, {x, plot_.bottom}}}, pen);
  }
}

void FigureDrawing::draw_x_label(const AxisTick& tick) {
  const double x = spot(tick.at, y_.low).x;
  const double below = plot_.bottom + kTickLength + kTickGap;
  if (lean_ > 0)
    canvas_.text({x + canvas_.text_middle(), below + (lean_ < 90 ? 0.7 * canvas_.font() : 0)}, tick.label,
                 {Anchor::end, lean_});
  else
    canvas_.text({x, below + 0.8 * canvas_.font()}, tick.label,
                 {.anchor = Anchor::middle, .exponent = tick.exponent});
}

void FigureDrawing::draw_axes() {
  const Pen pen{kAxisInk, 0.7}, minor{kAxisInk, 0.5};
  canvas_.line(
      std::array<Spot, 3>{{{plot_.left, plot_.top}, {plot_.left, plot_.bottom}, {plot_.right, plot_.bottom}}},
      pen);
  for (const AxisTick& tick : x_ticks_) {
    const Spot at = spot(tick.at, y_.low);
    const double length = tick.label.empty() ? 0.6 * kTickLength : kTickLength;
    canvas_.line(std::array<Spot, 2>{{at, {at.x, at.y + length}}}, tick.label.empty() ? minor : pen);
    if (!tick.label.empty()) draw_x_label(tick);
  }
  for (const AxisTick& tick : y_ticks_) {
    const double y = spot(x_.low, tick.at).y;
    const double length = tick.label.empty() ? 0.6 * kTickLength : kTickLength;
    canvas_.line(std::array<Spot, 2>{{{plot_.left, y}, {plot_.left - length, y}}},
                 tick.label.empty() ? minor : pen);
    canvas_.text({plot_.left - kTickLength - kTickGap, y + canvas_.text_middle()}, tick.label,
                 {.anchor = Anchor::end, .exponent = tick.exponent});
  }
  // A title is in the middle of its axis, if it fits there.
  const auto middle = [](double from, double to, double width, double most) {
    return std::clamp((from + to) / 2, kPaperMargin + width / 2, most - kPaperMargin - width / 2);
  };
  const double font = canvas_.font();
  canvas_.text({plot_.left, kPaperMargin + font}, figure_.title);
  canvas_.text({middle(plot_.left, plot_.right, canvas_.text_width(figure_.x.title), canvas_.width()),
                canvas_.height() - kPaperMargin - 0.3 * font},
               figure_.x.title, {Anchor::middle});
  canvas_.text({kPaperMargin + font,
                middle(plot_.top, plot_.bottom, canvas_.text_width(figure_.y.title), canvas_.height())},
               figure_.y.title, {Anchor::middle, 90});
}

void FigureDrawing::draw_data() {
  for (std::size_t k = 0; figure_.curves && k < figure_.lines.size(); ++k) draw_band(k);
  for (std::size_t k = 0; k < figure_.lines.size(); ++k) {
    std::vector<Spot> predicted;
    for (const auto& [x, y] : figure_.lines[k].predicted)
      if (x >= x_.low && x <= x_.high) predicted.push_back(spot(x, y));
    canvas_.line(predicted, {color_of_kind(k), 0.8, kPredictedDashes});
  }
  for (std::size_t k = 0; k < figure_.lines.size(); ++k) draw_curve(k);
  for (std::size_t k = 0; k < figure_.lines.size(); ++k) {
    if (!figure_.curves) draw_points(k);
    if (figure_.curves && figure_.lines.size() > 1) draw_markers_along(k);
  }
}

void FigureDrawing::draw_band(std::size_t kind) {
  std::vector<Spot> corners, back;
  for (const FigurePoint& point : figure_.lines[kind].points) {
    const Interval95 band = point.spread.value_or(Interval95{point.y, point.y});
    corners.push_back(spot(point.x, band.high));
    back.push_back(spot(point.x, band.low));
  }
  corners.insert(corners.end(), back.rbegin(), back.rend());
  canvas_.fill(corners, color_of_kind(kind), 0.18);
}

void FigureDrawing::draw_curve(std::size_t kind) {
  if (!figure_.x.categories.empty()) return;  // categories have no order
  std::vector<Spot> spots;
  for (const FigurePoint& point : figure_.lines[kind].points)
    spots.push_back(kind_spot(kind, point, point.y));
  canvas_.line(spots, pen_of(kind));
}

// Four markers at equal distances, at other places for each kind.
void FigureDrawing::draw_markers_along(std::size_t kind) {
  std::vector<Spot> spots;
  for (const FigurePoint& point : figure_.lines[kind].points) spots.push_back(spot(point.x, point.y));
  const auto apart = [&](std::size_t i) {
    return std::hypot(spots[i].x - spots[i - 1].x, spots[i].y - spots[i - 1].y);
  };
  double length = 0, gone = 0;
  for (std::size_t i = 1; i < spots.size(); ++i) length += apart(i);
  constexpr double kMarkers = 4;
  const double shift = 0.2 + 0.6 * static_cast<double>(kind % 5) / 5;
  double drawn = 0;
  for (std::size_t i = 1; i < spots.size(); ++i) {
    const double step = apart(i);
    for (double due = length * (drawn + shift) / kMarkers; drawn < kMarkers && step > 0 && gone + step >= due;
         due = length * (drawn + shift) / kMarkers) {
      const double share = (due - gone) / step;
      draw_marker(canvas_, kind,
                  {spots[i - 1].x + share * (spots[i].x - spots[i - 1].x),
                   spots[i - 1].y + share * (spots[i].y - spots[i - 1].y)},
                  false);
      ++drawn;
    }
    gone += step;
  }
}

void FigureDrawing::draw_points(std::size_t kind) {
  const Pen pen{color_of_kind(kind), 0.9};
  for (const FigurePoint& point : figure_.lines[kind].points) {
    if (!point.spread) continue;
    const Spot low = kind_spot(kind, point, point.spread->low),
               high = kind_spot(kind, point, point.spread->high);
    canvas_.line(std::array<Spot, 2>{{low, high}}, pen);
    for (const Spot& end : {low, high})
      canvas_.line(std::array<Spot, 2>{{{end.x - 2, end.y}, {end.x + 2, end.y}}}, pen);
  }
  for (const FigurePoint& point : figure_.lines[kind].points)
    draw_marker(canvas_, kind, kind_spot(kind, point, point.y), point.partial);
}

}  // namespace

Result<std::string> draw_figure(const PaperFigure& figure, const Paper& paper) {
  Canvas canvas(paper);
  if (const Status drawn = FigureDrawing(figure, canvas).draw(); !drawn) return drawn.error();
  canvas.describe(figure.y.title + (figure.curves ? " against " : " by ") + figure.x.title, figure.caption);
  return canvas.finish();
}

Result<std::string> draw_sheet(const FigureSheet& sheet, const Paper& paper) {
  Canvas canvas(paper);
  const double line = 1.4 * paper.font, left = kPaperMargin + paper.font;
  const Spot all{canvas.width(), canvas.height()};
  const double high = all.y - line * (static_cast<double>(sheet.caption.size()) + 0.5);
  const Legend legend = FigureDrawing::legend_of(sheet.figures.front(), canvas);
  const double legend_at = all.x - kPaperMargin - legend.width();
  const double wide = legend_at / static_cast<double>(sheet.figures.size());
  for (std::size_t k = 0; k < sheet.figures.size(); ++k) {
    canvas.frame({wide * static_cast<double>(k), 0}, {wide, high});
    if (const Status drawn = FigureDrawing(sheet.figures[k], canvas, true).draw(); !drawn)
      return drawn.error();
  }
  canvas.frame({0, 0}, all);
  const double top = kPaperMargin + 2 * paper.font;
  legend.draw_inside({legend_at, top, legend_at + legend.width(), top + legend.height()});
  std::string text;
  for (std::size_t l = 0; l < sheet.caption.size(); ++l) {
    canvas.text({left, high + line * (static_cast<double>(l) + 1)}, sheet.caption[l]);
    text += (text.empty() ? "" : " ") + sheet.caption[l];
  }
  canvas.describe(sheet.title, text);
  return canvas.finish();
}

}  // namespace starling::lab

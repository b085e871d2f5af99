#include "lab/plot/legend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lab/plot/strokes.h"

namespace starling::lab {
namespace {

constexpr double kSampleLength = 19, kSampleGap = 4, kLegendPad = 3, kLegendMargin = 2, kColumnGap = 8;

std::size_t covered_spots(const PlotArea& place, const std::vector<Spot>& taken) {
  const PlotArea around{place.left - 2, place.top - 2, place.right + 2, place.bottom + 2};
  return static_cast<std::size_t>(
      std::ranges::count_if(taken, [&](const Spot& spot) { return around.contains(spot); }));
}

}  // namespace

Legend::Legend(Canvas& canvas, std::vector<LegendEntry> entries, LegendSamples samples)
    : canvas_(canvas), entries_(std::move(entries)), samples_(samples) {
  for (const LegendEntry& entry : entries_) widest_ = std::max(widest_, entry_width(entry));
}

double Legend::entry_width(const LegendEntry& entry) const {
  return kSampleLength + kSampleGap + canvas_.text_width(entry.label);
}

double Legend::width() const { return widest_ + 2 * kLegendPad; }

double Legend::height() const {
  return row() * static_cast<double>(entries_.size()) + 2 * kLegendPad - 0.3 * canvas_.font();
}

std::optional<PlotArea> Legend::place_inside(const PlotArea& plot, const std::vector<Spot>& taken) const {
  const double left = plot.left + kLegendMargin, right = plot.right - kLegendMargin - width();
  const double top = plot.top + kLegendMargin, bottom = plot.bottom - kLegendMargin - height();
  if (right < left || bottom < top) return std::nullopt;
  const double center = (left + right) / 2, middle = (top + bottom) / 2;
  const std::array<Spot, 8> corners = {{{right, bottom},
                                        {right, top},
                                        {left, top},
                                        {left, bottom},
                                        {center, bottom},
                                        {center, top},
                                        {right, middle},
                                        {left, middle}}};
  for (const Spot& corner : corners) {
    const PlotArea place{corner.x, corner.y, corner.x + width(), corner.y + height()};
    if (covered_spots(place, taken) == 0) return place;
  }
  return std::nullopt;
}

std::size_t Legend::columns() const {
  const double room = canvas_.width() - 2 * kLegendPad + kColumnGap;
  const auto fit = static_cast<std::size_t>(room / (widest_ + kColumnGap));
  const std::size_t most = std::clamp<std::size_t>(fit, 1, entries_.size());
  const std::size_t rows = (entries_.size() + most - 1) / most;
  return (entries_.size() + rows - 1) / rows;  // rows of nearly the same length
}

Result<double> Legend::height_above() const {
  for (const LegendEntry& entry : entries_) {
    if (entry_width(entry) > canvas_.width() - 2 * kLegendPad)
      return Error{
          fmt::format("the label '{}' is wider than the figure; choose a shorter one with --label, or a "
                      "larger --width",
                      entry.label)};
  }
  return row() * static_cast<double>((entries_.size() + columns() - 1) / columns());
}

void Legend::draw_inside(const PlotArea& place) const {
  const std::array<Spot, 4> corners = {{{place.left, place.top},
                                        {place.right, place.top},
                                        {place.right, place.bottom},
                                        {place.left, place.bottom}}};
  canvas_.fill(corners, kPaperWhite, 0.85);
  double y = place.top + kLegendPad + 0.5 * canvas_.font();
  for (const LegendEntry& entry : entries_) {
    draw_entry(entry, {place.left + kLegendPad, y});
    y += row();
  }
}

void Legend::draw_above(double top) const {
  const double wide = widest_ + kColumnGap;
  const double left = (canvas_.width() - wide * static_cast<double>(columns()) + kColumnGap) / 2;
  for (std::size_t i = 0; i < entries_.size(); ++i)
    draw_entry(entries_[i], {left + wide * static_cast<double>(i % columns()),
                             top + row() * (static_cast<double>(i / columns()) + 0.5)});
}

void Legend::draw_entry(const LegendEntry& entry, const Spot& at) const {
  const std::array<Spot, 2> sample = {{at, {at.x + kSampleLength, at.y}}};
  static constexpr std::array<double, 2> kPredicted = {3, 2};
  if (entry.kind) {
    const bool dashed = samples_ == LegendSamples::dashed;
    const auto dashes = dashed ? dashes_of_kind(*entry.kind) : std::span<const double>();
    if (samples_ != LegendSamples::markers)
      canvas_.line(sample, {color_of_kind(*entry.kind), kCurveWidth, dashes});
    draw_marker(canvas_, *entry.kind, {at.x + kSampleLength / 2, at.y}, false);
  } else {
    canvas_.line(sample, {"#555555", 0.8, kPredicted});
  }
  canvas_.text({at.x + kSampleLength + kSampleGap, at.y + canvas_.text_middle()}, entry.label);
}

}  // namespace starling::lab

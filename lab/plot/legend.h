// The legend of a figure: in the emptiest corner of the plot, or above it if every corner hides a curve. For
// .cc files of this room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/plot/canvas.h"

namespace starling::lab {

struct PlotArea {
  double left = 0, top = 0, right = 0, bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
  bool contains(const Spot& spot) const {
    return spot.x >= left && spot.x <= right && spot.y >= top && spot.y <= bottom;
  }
};

struct LegendEntry {
  std::string label;
  std::optional<std::size_t> kind;  // none: the dashed line of predictions
};

enum class LegendSamples {
  dashed,   // lines with the dashes of their kinds
  solid,    // lines without dashes, because these mean something else
  markers,  // no lines
};

class Legend {
 public:
  Legend(Canvas& canvas, std::vector<LegendEntry> entries, LegendSamples samples);

  bool empty() const { return entries_.empty(); }
  // Of its entries one below the other.
  double width() const;
  double height() const;
  // Where it fits inside of the plot without covering one of the spots.
  std::optional<PlotArea> place_inside(const PlotArea& plot, const std::vector<Spot>& taken) const;
  // The height of its rows above the plot. An Error if an entry is wider than the paper.
  Result<double> height_above() const;
  void draw_inside(const PlotArea& place) const;
  void draw_above(double top) const;

 private:
  double row() const { return 1.3 * canvas_.font(); }
  double entry_width(const LegendEntry& entry) const;
  std::size_t columns() const;  // of the rows above the plot
  void draw_entry(const LegendEntry& entry, const Spot& at) const;

  Canvas& canvas_;
  std::vector<LegendEntry> entries_;
  LegendSamples samples_;
  double widest_ = 0;
};

}  // namespace starling::lab

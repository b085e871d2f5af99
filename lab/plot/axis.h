// The axes of a figure: where a value lies, and the round numbers that are written beside an axis.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace starling::lab {

struct AxisScale {
  double low = 0, high = 1;  // low < high; both > 0 if it is logarithmic
  bool log = false;

  double place(double value) const;  // 0 at `low`, 1 at `high`
};

struct AxisTick {
  double at = 0;
  std::string label;     // empty: a tick without a number
  std::string exponent;  // raised behind the label: "10" and "−3"; mostly empty
};

// Ticks within the scale, ascending. On a linear axis they are 1, 2 or 5 times a power of ten apart. On a
// logarithmic axis the labeled ones are 1, 2 and 5 times the powers of ten, or only powers; if the scale is
// so short that it has fewer than three of these, they are as on a linear axis. At most `most` (>= 2) ticks
// have labels.
std::vector<AxisTick> axis_ticks(const AxisScale& scale, std::size_t most);

}  // namespace starling::lab

// The units of what can be plotted.
#pragma once

#include <cstdint>
#include <string>

namespace starling::lab {

// The titles of axes, with the unit that suits the largest value: "data sent (MB)".
enum class FigureUnit { plain, seconds, count, bytes, percent };
struct FigureScale {
  std::string title;
  double factor = 1;  // from the value to the number on the axis
};
FigureScale figure_scale(const std::string& title, FigureUnit unit, double largest);

}  // namespace starling::lab

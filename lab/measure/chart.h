// Curves that fall exponentially, as a picture for a paper: panels side by side, a logarithmic axis upwards,
// a linear one to the right. Labels stand at the curves' right ends in the curves' order. Plain SVG, on
// white.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace starling::lab {

using Points = std::vector<std::pair<double, double>>;  // (x, y), x not falling, y > 0

struct Series {
  std::string label;
  std::size_t style = 0;  // color and marker; the same in all panels. Ten are distinct
  Points points;          // solid
  Points dashed = {};     // in the same color; may be empty
};

struct Panel {
  std::string title, x_title;
  double x_max = 1;  // > 0: the right edge; what is beyond, or below Chart::y_min, is cut off
  std::vector<Series> series;
};

struct Chart {
  std::string y_title;
  double y_min = 1e-3;  // < 1; the top is 1
  std::vector<Panel> panels;
  std::vector<std::string> caption;  // lines
};

std::string to_svg(const Chart& chart);

}  // namespace starling::lab

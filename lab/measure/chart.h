// Charts of curves that decay exponentially, for a paper, and that of `topology compare`. Panels are side by
// side, with a logarithmic y axis and a linear x axis. Labels are at the right ends of the curves, in their
// order. Plain SVG on white.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/measure/consensus.h"
#include "topologies/analysis.h"

namespace starling::lab {

using Points = std::vector<std::pair<double, double>>;  // (x, y), x not falling, y > 0

struct Series {
  std::string label;
  std::size_t style = 0;  // color and marker, the same in all panels; ten are distinct
  Points points;          // solid
  Points dashed = {};     // in the same color; may be empty
};

struct Panel {
  std::string title, x_title;
  double x_max = 1;  // > 0: the right edge. Curves are cut there and at Chart::y_min
  std::vector<Series> series;
};

struct Chart {
  std::string y_title;
  double y_min = 1e-3;  // < 1; the top is 1
  std::vector<Panel> panels;
  std::vector<std::string> caption;  // lines
};

std::string to_svg(const Chart& chart);

struct Compared {
  std::string name;
  topologies::Analysis analysis;
  LockStep lock_step;
  Pairwise pairwise;
};

// The disagreement of peers on several topologies, with asynchronous exchanges and with lock-step rounds,
// measured and predicted.
Chart consensus_chart(std::span<const Compared> topologies, std::uint32_t peers, std::uint64_t seed);

}  // namespace starling::lab

// The mean of the curves of several seeds, with a band.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lab/report/statistics.h"

namespace starling::lab {

using CurvePoints = std::vector<std::pair<double, double>>;  // (x, y), x ascending

struct MeanAndBand {
  double mean = 0;
  std::optional<Interval95> band;
};
// Three values or more: their mean with its 95 % interval by Student's t; `log`: both on the logarithms, if
// all values are positive (log_spread_of()). Two: their mean, and the band from the lesser to the greater
// one. One, or equal ones: no band. The band is within the limits. REQUIRES: there is a value.
MeanAndBand mean_and_band(std::span<const double> values, bool log, const Limits& limits = {});

// The value of the curve at x, on straight lines between its points as the axes show them. REQUIRES: x is
// between the first and the last point.
double interpolated(const CurvePoints& curve, double x, bool log_x, bool log_y);

struct MeanPoint : MeanAndBand {
  double x = 0;
};
// Their mean where all curves have values, at the places of all their points, at most 400. A single curve is
// returned as it is. REQUIRES: each curve has a point.
std::vector<MeanPoint> mean_curve(const std::vector<CurvePoints>& curves, bool log_x, bool log_y,
                                  const Limits& limits = {});

}  // namespace starling::lab

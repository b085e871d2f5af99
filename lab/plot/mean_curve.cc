#include "lab/plot/mean_curve.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace starling::lab {
namespace {

constexpr std::size_t kMostMeanPoints = 400;

// The places of all points between `from` and `to`, and these two.
std::vector<double> common_grid(const std::vector<CurvePoints>& curves, double from, double to) {
  std::vector<double> grid = {from, to};
  for (const CurvePoints& curve : curves)
    for (const auto& [x, y] : curve)
      if (x > from && x < to) grid.push_back(x);
  std::sort(grid.begin(), grid.end());
  grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
  if (grid.size() <= kMostMeanPoints) return grid;
  std::vector<double> some;
  for (std::size_t i = 0; i < kMostMeanPoints; ++i)
    some.push_back(grid[i * (grid.size() - 1) / (kMostMeanPoints - 1)]);
  return some;
}

}  // namespace

MeanAndBand mean_and_band(std::span<const double> values, bool log, const Limits& limits) {
  const auto logs = log ? log_spread_of(values) : std::nullopt;
  const auto spread = logs ? logs : spread_of(values, limits);
  STARLING_CHECK(spread.has_value());
  MeanAndBand result{spread->mean, spread->interval};
  if (spread->count == 2 && spread->least < spread->most)
    result.band = Interval95{spread->least, spread->most};
  return result;
}

double interpolated(const CurvePoints& curve, double x, bool log_x, bool log_y) {
  const auto after = std::lower_bound(curve.begin(), curve.end(), x,
                                      [](const auto& point, double at) { return point.first < at; });
  STARLING_CHECK(after != curve.end());
  if (after == curve.begin() || after->first == x) return after->second;
  const auto [x0, y0] = *(after - 1);
  const auto [x1, y1] = *after;
  const double share = log_x && x0 > 0 ? std::log(x / x0) / std::log(x1 / x0) : (x - x0) / (x1 - x0);
  if (log_y && y0 > 0 && y1 > 0) return y0 * std::pow(y1 / y0, share);
  return y0 + share * (y1 - y0);
}

std::vector<MeanPoint> mean_curve(const std::vector<CurvePoints>& curves, bool log_x, bool log_y,
                                  const Limits& limits) {
  std::vector<MeanPoint> result;
  if (curves.size() == 1) {
    for (const auto& [x, y] : curves.front()) result.push_back({{y, std::nullopt}, x});
    return result;
  }
  double from = -INFINITY, to = INFINITY;
  for (const CurvePoints& curve : curves) {
    STARLING_CHECK(!curve.empty());
    from = std::max(from, curve.front().first);
    to = std::min(to, curve.back().first);
  }
  if (from > to) return result;
  for (const double x : common_grid(curves, from, to)) {
    std::vector<double> values;
    for (const CurvePoints& curve : curves) values.push_back(interpolated(curve, x, log_x, log_y));
    result.push_back({mean_and_band(values, log_y, limits), x});
  }
  return result;
}

}  // namespace starling::lab

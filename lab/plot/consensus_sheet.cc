#include "lab/plot/consensus_sheet.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "lab/plot/mean_curve.h"

namespace starling::lab {
namespace {

// sqrt(V) by x.
CurvePoints curve_of(const PairwiseSpread& pairwise, std::uint32_t peers) {
  CurvePoints points;
  for (std::size_t p = 0; p < pairwise.v.size(); ++p)
    points.emplace_back(static_cast<double>(pairwise.exchanges[p]) / peers, std::sqrt(pairwise.v[p]));
  return points;
}

CurvePoints curve_of(const LockStepSpread& lock_step) {
  CurvePoints points;
  for (std::size_t r = 0; r < lock_step.v.size(); ++r)
    points.emplace_back(static_cast<double>(r), std::sqrt(lock_step.v[r]));
  return points;
}

// A line with the predicted slope through the curve's end, back to the start. It begins below the curve,
// because faster modes contribute at first.
CurvePoints asymptote(const CurvePoints& curve, std::optional<double> factor, double spacing_of_factor) {
  if (!factor || *factor <= 0 || *factor >= 1 || curve.size() < 2 || curve.back().second <= 0) return {};
  const auto [x, y] = curve.back();
  const double rate = -std::log(*factor) / 2 / spacing_of_factor;  // of sqrt(V), per unit of x
  const double start = y * std::exp(rate * x);
  if (start <= 1) return {{0, start}, {x, y}};
  return {{std::log(start) / rate, 1}, {x, y}};
}

double reached(const CurvePoints& curve, double y) {
  for (const auto& point : curve) {
    if (point.second <= y) return point.first;
  }
  return std::numeric_limits<double>::infinity();
}

// The x at which half of the curves have fallen to y, and a quarter more.
double right_edge(const std::vector<CurvePoints>& curves, double y, double least) {
  std::vector<double> ends;
  double longest = least;
  for (const CurvePoints& curve : curves) {
    ends.push_back(reached(curve, y));
    if (!curve.empty()) longest = std::max(longest, curve.back().first);
  }
  std::ranges::sort(ends);
  const double middle = ends.empty() ? least : ends[ends.size() / 2];
  return std::isfinite(middle) ? std::max(least, 1.25 * middle) : longest;
}

// The curve up to where it leaves the plot: at x_max, or at y_min on a logarithmic axis. Empty if it begins
// outside.
CurvePoints cut(const CurvePoints& curve, double x_max, double y_min) {
  const auto height = [](double y) { return std::log(std::max(y, 1e-300)); };
  CurvePoints seen;
  for (const auto& [x, y] : curve) {
    if (seen.empty()) {
      if (x > x_max || y < y_min) return seen;
      seen.emplace_back(x, y);
      continue;
    }
    const auto [from, start] = seen.back();
    double share = 1;
    if (x > x_max) share = std::min(share, (x_max - from) / (x - from));
    if (y < y_min) share = std::min(share, (height(y_min) - height(start)) / (height(y) - height(start)));
    seen.emplace_back(from + share * (x - from),
                      std::exp(height(start) + share * (height(y) - height(start))));
    if (share < 1) break;
  }
  return seen;
}

// What one topology has in a figure.
struct ConsensusCurve {
  std::string label;
  CurvePoints measured, predicted;
};

PaperFigure figure_of(const std::string& title, const std::string& x_title,
                      const std::vector<ConsensusCurve>& all, double x_least, double y_min) {
  std::vector<CurvePoints> curves;
  for (const ConsensusCurve& curve : all) curves.push_back(curve.measured);
  const double x_max = right_edge(curves, y_min, x_least);
  PaperFigure figure{.title = title,
                     .x = {.title = x_title, .shown = {0, x_max}},
                     .y = {.title = "disagreement √(V / V at the start)", .log = true, .shown = {y_min, 1}},
                     .lines = {},
                     .caption = {},
                     .remarks = {}};
  for (const ConsensusCurve& curve : all) {
    FigureLine& line = figure.lines.emplace_back(FigureLine{curve.label, {}});
    for (const auto& [x, y] : cut(curve.measured, x_max, y_min)) line.points.push_back({x, y, {}, false});
    line.predicted = cut(curve.predicted, x_max, y_min);
  }
  return figure;
}

}  // namespace

FigureSheet consensus_sheet(std::span<const Compared> topologies, std::uint32_t peers, std::uint64_t seed) {
  // Whole decades, down to the end of the asynchronous curves.
  const double y_min = std::pow(10, std::ceil(std::log10(std::sqrt(pairwise_floor(peers)))));
  std::vector<ConsensusCurve> exchanges, rounds;
  std::uint64_t seeds_min = UINT64_MAX, seeds_max = 0;
  for (const Compared& one : topologies) {
    std::string label = one.name;
    if (const auto& after = one.lock_step.exact_after)
      label += " (exact after " + std::to_string(*after) + (*after == 1 ? " round)" : " rounds)");
    ConsensusCurve async{label, curve_of(one.pairwise, peers), {}};
    async.predicted = asymptote(async.measured, one.analysis.consensus_factor, 1.0 / peers);
    exchanges.push_back(std::move(async));
    ConsensusCurve round{label, curve_of(one.lock_step), {}};
    round.predicted = asymptote(round.measured, one.analysis.round_factor, 1);
    rounds.push_back(std::move(round));
    seeds_min = std::min(seeds_min, one.pairwise.seeds);
    seeds_max = std::max(seeds_max, one.pairwise.seeds);
  }
  const std::string seeds = seeds_min == seeds_max
                                ? std::to_string(seeds_max)
                                : std::to_string(seeds_min) + " to " + std::to_string(seeds_max);
  return {
      .title = "consensus of " + std::to_string(peers) + " peers",
      .figures = {figure_of("Asynchronous pairwise gossip", "exchanges begun per peer", exchanges, 1, y_min),
                  figure_of("Lock-step rounds", "rounds", rounds, 4, y_min)},
      .caption = {std::to_string(peers) +
                      " peers. V = Σ |x − mean|² from random vectors. Left: mean of V over " + seeds +
                      " worlds (seed " + std::to_string(seed) + "), Poisson clocks; right: one run.",
                  "Solid: measured. Dashed: the rate predicted for the long run, laid through the measured "
                  "curve's end."}};
}

}  // namespace starling::lab

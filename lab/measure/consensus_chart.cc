#include "lab/measure/consensus_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace starling::lab {
namespace {

// sqrt(V) by x.
Points curve_of(const Pairwise& pairwise, std::uint32_t peers) {
  Points points;
  for (std::size_t p = 0; p < pairwise.v.size(); ++p)
    points.emplace_back(static_cast<double>(pairwise.exchanges[p]) / peers, std::sqrt(pairwise.v[p]));
  return points;
}

Points curve_of(const LockStep& lock_step) {
  Points points;
  for (std::size_t r = 0; r < lock_step.v.size(); ++r)
    points.emplace_back(static_cast<double>(r), std::sqrt(lock_step.v[r]));
  return points;
}

// A line with the predicted slope through the curve's end, back to the start. It begins below the curve,
// because faster modes contribute at first.
Points asymptote(const Points& curve, std::optional<double> factor, double spacing_of_factor) {
  if (!factor || *factor <= 0 || *factor >= 1 || curve.size() < 2 || curve.back().second <= 0) return {};
  const auto [x, y] = curve.back();
  const double rate = -std::log(*factor) / 2 / spacing_of_factor;  // of sqrt(V), per unit of x
  const double start = y * std::exp(rate * x);
  if (start <= 1) return {{0, start}, {x, y}};
  return {{std::log(start) / rate, 1}, {x, y}};
}

double reached(const Points& curve, double y) {
  for (const auto& point : curve) {
    if (point.second <= y) return point.first;
  }
  return std::numeric_limits<double>::infinity();
}

// The x at which half of the curves have fallen to y, and a quarter more.
double right_edge(const std::vector<Series>& series, double y, double least) {
  std::vector<double> ends;
  double longest = least;
  for (const Series& one : series) {
    ends.push_back(reached(one.points, y));
    if (!one.points.empty()) longest = std::max(longest, one.points.back().first);
  }
  std::sort(ends.begin(), ends.end());
  const double middle = ends.empty() ? least : ends[ends.size() / 2];
  return std::isfinite(middle) ? std::max(least, 1.25 * middle) : longest;
}

}  // namespace

Chart consensus_chart(std::span<const Compared> topologies, std::uint32_t peers, std::uint64_t seed) {
  Chart chart;
  chart.y_title = "disagreement √(V / V at the start)";
  // Whole decades, down to the end of the asynchronous curves.
  chart.y_min = std::pow(10, std::ceil(std::log10(std::sqrt(pairwise_floor(peers)))));
  Panel pairwise{"Asynchronous pairwise gossip", "exchanges begun per peer", 1, {}};
  Panel lock_step{"Lock-step rounds", "rounds", 1, {}};
  std::uint64_t seeds_min = UINT64_MAX, seeds_max = 0;
  for (std::size_t k = 0; k < topologies.size(); ++k) {
    const Compared& one = topologies[k];
    Series async{one.name, k, curve_of(one.pairwise, peers), {}};
    async.dashed = asymptote(async.points, one.analysis.consensus_factor, 1.0 / peers);
    pairwise.series.push_back(std::move(async));
    Series rounds{one.name, k, curve_of(one.lock_step), {}};
    rounds.dashed = asymptote(rounds.points, one.analysis.round_factor, 1);
    if (one.lock_step.exact_after)
      rounds.label += " (exact after " + std::to_string(*one.lock_step.exact_after) + ")";
    lock_step.series.push_back(std::move(rounds));
    seeds_min = std::min(seeds_min, one.pairwise.seeds);
    seeds_max = std::max(seeds_max, one.pairwise.seeds);
  }
  pairwise.x_max = right_edge(pairwise.series, chart.y_min, 1);
  lock_step.x_max = right_edge(lock_step.series, chart.y_min, 4);
  chart.panels = {std::move(pairwise), std::move(lock_step)};
  const std::string seeds = seeds_min == seeds_max
                                ? std::to_string(seeds_max)
                                : std::to_string(seeds_min) + " to " + std::to_string(seeds_max);
  chart.caption = {
      std::to_string(peers) + " peers. V = Σ |x − mean|² from random vectors. Left: mean of V over " + seeds +
          " worlds (seed " + std::to_string(seed) + "), Poisson clocks; right: one run.",
      "Solid: measured. Dashed: the rate predicted for the long run, laid through the measured curve's end."};
  return chart;
}

}  // namespace starling::lab

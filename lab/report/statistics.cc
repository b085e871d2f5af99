#include "lab/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace starling::lab {
namespace {

// The regularized incomplete beta function I_x(a, b), by its continued fraction (Lentz's method);
// DLMF 8.17.22.
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2))
    return 1 - incomplete_beta(b, a, 1 - x);  // the fraction converges faster there
  constexpr double kTiny = 1e-300;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x)) /
      a;
  double c = 1, d = 1 / std::max(kTiny, 1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      c = 1 + term / c;
      if (std::abs(d) < kTiny) d = kTiny;
      if (std::abs(c) < kTiny) c = kTiny;
      d = 1 / d;
      change = c * d;
      value *= change;
    }
    if (std::abs(change - 1) < 1e-15) break;
  }
  return front * value;
}

// The tail of the distribution above t >= 0.
double student_t_tail(double t, double degrees) {
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
}

struct Moments {
  double mean = 0, variance_of_mean = 0;
};

Moments moments_of(std::span<const double> values) {
  Moments moments;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) moments.mean += value / n;
  double squares = 0;
  for (const double value : values) squares += (value - moments.mean) * (value - moments.mean);
  if (values.size() > 1) moments.variance_of_mean = squares / (n - 1) / n;
  return moments;
}

bool all_equal(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); });
}

// None if there are no values, or one is not positive and finite.
std::optional<std::vector<double>> logarithms(std::span<const double> values) {
  std::vector<double> logs;
  for (const double value : values) logs.push_back(std::log(value));
  const bool finite = std::all_of(logs.begin(), logs.end(), [](double x) { return std::isfinite(x); });
  if (logs.empty() || !finite) return std::nullopt;
  return logs;
}

}  // namespace

double student_t_quantile(double p, double degrees) {
  STARLING_CHECK(p > 0 && p < 1 && degrees > 0);
  if (p == 0.5) return 0;
  if (p < 0.5) return -student_t_quantile(1 - p, degrees);
  double low = 0, high = 1;
  while (student_t_tail(high, degrees) > 1 - p && high < 1e300) high *= 2;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (student_t_tail(middle, degrees) > 1 - p ? low : high) = middle;
  }
  return high;
}

std::optional<Spread> spread_of(std::span<const double> values, const Limits& limits) {
  if (values.empty()) return std::nullopt;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  Spread spread;
  spread.count = sorted.size();
  const std::size_t half = sorted.size() / 2;
  spread.median = sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  spread.least = sorted.front();
  spread.most = sorted.back();
  const Moments moments = moments_of(values);
  spread.mean = moments.mean;
  if (spread.least < spread.most) {
    const double t = student_t_quantile(0.975, static_cast<double>(spread.count - 1));
    const double half_width = t * std::sqrt(moments.variance_of_mean);
    spread.interval = Interval95{std::max(spread.mean - half_width, std::min(limits.least, spread.mean)),
                                 std::min(spread.mean + half_width, std::max(limits.most, spread.mean))};
  }
  return spread;
}

std::optional<Spread> log_spread_of(std::span<const double> values) {
  const auto logs = logarithms(values);
  if (!logs) return std::nullopt;
  Spread spread = *spread_of(values);
  const Spread of_logs = *spread_of(*logs);
  spread.mean = std::exp(of_logs.mean);
  spread.interval.reset();
  if (of_logs.interval)
    spread.interval = Interval95{std::exp(of_logs.interval->low), std::exp(of_logs.interval->high)};
  return spread;
}

std::optional<Speedup> speedup(std::span<const double> reference, std::span<const double> values) {
  const auto a = logarithms(reference), b = logarithms(values);
  if (!a || !b) return std::nullopt;
  const Moments of_a = moments_of(*a), of_b = moments_of(*b);
  const double difference = of_a.mean - of_b.mean;
  Speedup result;
  result.factor = std::exp(difference);
  const double variance = of_a.variance_of_mean + of_b.variance_of_mean;
  if (a->size() < 2 || b->size() < 2 || (all_equal(*a) && all_equal(*b))) return result;
  const auto part = [](double v, std::size_t n) { return v * v / static_cast<double>(n - 1); };
  const double degrees =
      variance * variance / (part(of_a.variance_of_mean, a->size()) + part(of_b.variance_of_mean, b->size()));
  const double half_width = student_t_quantile(0.975, degrees) * std::sqrt(variance);
  result.interval = Interval95{std::exp(difference - half_width), std::exp(difference + half_width)};
  return result;
}

std::optional<Speedup> paired_speedup(std::span<const double> reference, std::span<const double> values) {
  STARLING_CHECK(reference.size() == values.size());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.size(); ++i) ratios.push_back(reference[i] / values[i]);
  const auto spread = log_spread_of(ratios);
  if (!spread) return std::nullopt;
  return Speedup{spread->mean, spread->interval};
}

}  // namespace starling::lab

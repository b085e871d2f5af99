// Statistics over a few runs that differ only in their seed: means with confidence intervals, and how much
// faster one kind of run is than another.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>

namespace starling::lab {

// The quantile p of Student's distribution with this many degrees of freedom (> 0, not necessarily whole).
// REQUIRES: 0 < p < 1.
double student_t_quantile(double p, double degrees);

struct Interval95 {
  double low = 0, high = 0;
};

// What a quantity can be: an accuracy is from 0 to 1, a count not below 0.
struct Limits {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
};

struct Spread {
  std::size_t count = 0;
  double median = 0, least = 0, most = 0, mean = 0;
  std::optional<Interval95> interval;  // of the mean, by Student's t; none for one value or for equal ones
};
// None if empty. The interval is within the limits, as far as the mean is.
std::optional<Spread> spread_of(std::span<const double> values, const Limits& limits = {});

// The spread of positive quantities that vary by factors, such as times: `mean` is the geometric mean, and
// the interval is Student's on the logarithms, so it is above 0. If the logarithms are normally distributed
// (log-normal values), the geometric mean estimates the median of the distribution, and the interval contains
// that median with a probability of 95 %. None if empty or if a value is not positive.
std::optional<Spread> log_spread_of(std::span<const double> values);

// The ratio of the geometric means of `reference` and `values`, with an interval by Welch's t on the
// logarithms (B. L. Welch, Biometrika 34, 1947), which needs two of each, not all equal. None if one of them
// is empty or contains a value that is not positive.
struct Speedup {
  double factor = 1;
  std::optional<Interval95> interval;
};
std::optional<Speedup> speedup(std::span<const double> reference, std::span<const double> values);
// The same of pairs, such as the runs of two kinds with the same seeds: the interval is Student's on the
// logarithms of the ratios, and narrower where a seed makes both slow. REQUIRES: as many values as
// references.
std::optional<Speedup> paired_speedup(std::span<const double> reference, std::span<const double> values);

// Fewer seeds than this give intervals so wide, and so dependent on the assumed distribution, that a report
// says so.
inline constexpr std::size_t kFewSeeds = 5;

}  // namespace starling::lab

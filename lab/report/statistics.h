// Statistics over a few runs that differ only in their seed: means with confidence intervals, and how much
// faster one kind of run is than another.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace starling::lab {

// The quantile p of Student's distribution with this many degrees of freedom (> 0, not necessarily whole).
// REQUIRES: 0 < p < 1.
double student_t_quantile(double p, double degrees);

struct Interval95 {
  double low = 0, high = 0;
};

struct Spread {
  std::size_t count = 0;
  double median = 0, least = 0, most = 0, mean = 0;
  std::optional<Interval95> interval;  // of the mean, by Student's t; none for a single value
};
std::optional<Spread> spread_of(std::span<const double> values);  // none if empty

// The ratio of the geometric means of `reference` and `values`, with an interval by Welch's t on the
// logarithms, which needs two of each. None if one of them is empty or contains a value that is not positive.
struct Speedup {
  double factor = 1;
  std::optional<Interval95> interval;
};
std::optional<Speedup> speedup(std::span<const double> reference, std::span<const double> values);

}  // namespace starling::lab

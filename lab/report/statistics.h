// What a few runs that differ in their seed alone say of the rest: means with confidence intervals, and how
// much faster one kind of run is than another.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace starling::lab {

// The t below which Student's distribution with so many degrees of freedom (> 0, whole or not) has the part
// p. REQUIRES: 0 < p < 1.
double student_t_quantile(double p, double degrees);

struct Interval95 {
  double low = 0, high = 0;
};

struct Spread {
  std::size_t count = 0;
  double median = 0, least = 0, most = 0, mean = 0;
  std::optional<Interval95> interval;  // of the mean, by Student's t; none of a single value
};
std::optional<Spread> spread_of(std::span<const double> values);  // none of none

// How many times as long `reference` takes as `values`, in the geometric means, with its interval by Welch's
// t on the logarithms; the interval needs two of each. None where one is empty or has a value that is not
// positive.
struct Speedup {
  double factor = 1;
  std::optional<Interval95> interval;
};
std::optional<Speedup> speedup(std::span<const double> reference, std::span<const double> values);

}  // namespace starling::lab

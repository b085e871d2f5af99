// Compares the reference's backward loops with calculus, in double.
#pragma once

#include <functional>
#include <vector>

#include "kernels/reference/image.h"
#include "tests/catch.h"
#include "tests/kernels/near.h"
#include "tests/kernels/run.h"

namespace starling::kernels::reference {

using Values = std::vector<double>;

inline Values draw(Random& random, std::size_t n) {
  Values values(n);
  for (double& value : values) value = random.uniform(-1, 1);
  return values;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Compares `derivative` with central differences of `f` at each element of `at`.
inline void check_derivative(Values& at, const Values& derivative, const std::function<double()>& f) {
  REQUIRE(at.size() == derivative.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double value = at[i], h = 1e-6;
    at[i] = value + h;
    const double up = f();
    at[i] = value - h;
    const double down = f();
    at[i] = value;
    REQUIRE(near((up - down) / (2 * h), derivative[i], 1e-7));
  }
}

inline Images<const double> read(const Values& values, const Shape& shape) {
  return images(values.data(), shape);
}
inline Images<double> write(Values& values, const Shape& shape) { return images(values.data(), shape); }

}  // namespace starling::kernels::reference

#include "topologies/spectra/lanczos.h"

#include <algorithm>
#include <cmath>

namespace starling::topologies {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The number of eigenvalues of the tridiagonal matrix below x (Sturm's count).
std::size_t count_below(std::span<const double> diagonal, std::span<const double> beside, double x) {
  std::size_t count = 0;
  double q = 1;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    const double b = i > 0 ? beside[i - 1] : 0;
    q = diagonal[i] - x - b * b / q;
    if (q == 0) q = 1e-300;
    count += q < 0;
  }
  return count;
}

// The greatest eigenvalue, by bisection within Gershgorin's bounds.
double greatest_of_tridiagonal(std::span<const double> diagonal, std::span<const double> beside) {
  double low = diagonal[0], high = diagonal[0];
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    const double reach =
        (i > 0 ? std::abs(beside[i - 1]) : 0) + (i + 1 < diagonal.size() ? std::abs(beside[i]) : 0);
    low = std::min(low, diagonal[i] - reach);
    high = std::max(high, diagonal[i] + reach);
  }
  for (int halving = 0; halving < 100; ++halving) {
    const double middle = 0.5 * (low + high);
    if (middle == low || middle == high) break;
    (count_below(diagonal, beside, middle) == diagonal.size() ? high : low) = middle;
  }
  return 0.5 * (low + high);
}

bool settled(double before, double now) { return std::abs(before - now) <= 1e-9 * std::abs(1 - now) + 1e-12; }

}  // namespace

std::optional<double> greatest_eigenvalue(
    const std::function<void(std::span<const double>, std::span<double>)>& apply, std::vector<double> start,
    int steps_max) {
  const std::size_t n = start.size();
  const double norm = std::sqrt(dot(start, start));
  if (n == 0 || norm < 1e-150) return 0;
  std::vector<double> now = std::move(start), before(n), next(n), diagonal, beside;
  for (double& v : now) v /= norm;

  std::optional<double> last;
  std::size_t look = 8;  // steps after which the spectrum is computed; grows by half each time
  for (int step = 1; step <= steps_max; ++step) {
    apply(now, next);
    const double along = dot(now, next);
    const double back = beside.empty() ? 0 : beside.back();
    for (std::size_t i = 0; i < n; ++i) next[i] -= along * now[i] + back * before[i];
    diagonal.push_back(along);
    const double rest = std::sqrt(dot(next, next));
    const bool exhausted = rest < 1e-13 || diagonal.size() == n;
    if (exhausted || diagonal.size() >= look) {
      const double found = greatest_of_tridiagonal(diagonal, beside);
      if (exhausted || (last && settled(*last, found))) return found;
      last = found;
      look += look / 2;
    }
    beside.push_back(rest);
    for (double& v : next) v /= rest;
    std::swap(before, now);
    std::swap(now, next);
  }
  return std::nullopt;
}

}  // namespace starling::topologies

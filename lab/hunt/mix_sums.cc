#include "lab/hunt/mix_sums.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "base/processor.h"

namespace starling::lab {
namespace {

constexpr std::size_t kLanes = 8;  // partial sums, which the compiler keeps in one register
using Lanes = std::array<double, kLanes>;

struct MixLanes {
  Lanes shift{}, magnitude{}, square{}, off{}, before{}, after{};
};

double sum(const Lanes& lanes) {
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

MixSums sum(const MixLanes& lanes) {
  return {sum(lanes.shift), sum(lanes.magnitude), sum(lanes.square),
          sum(lanes.off),   sum(lanes.before),    sum(lanes.after)};
}

// The distance of a value from the expected one, beyond rounding. A NaN remains a NaN.
inline double beyond(double value, double wanted, double size) {
  const double distance = std::abs(value - wanted) - 4 * kFloatUlp * size;
  return distance < 0 ? 0 : distance;
}

// The free half has the value c x - k lent: 2 x - lent, or x itself if nothing is lent.
struct FreeHalf {
  double mass, c, k;
};

inline void add_answer(MixLanes& s, std::size_t lane, double own, double theirs, double lent, double before,
                       double after, double w, const FreeHalf& half) {
  const double shift = w * (theirs - own), d = (own - theirs) * (own - theirs);
  const double size = std::abs(own) + std::abs(theirs) + std::abs(before);
  const double free = half.c * before - half.k * lent, y = half.c * after - half.k * lent;
  s.shift[lane] += shift;
  s.magnitude[lane] += size;
  s.square[lane] += size * size;
  s.off[lane] += beyond(after, before + shift, size) + beyond(own, free, size + std::abs(free));
  s.before[lane] += half.mass * d;
  s.after[lane] += half.mass * (y - theirs) * (y - theirs) + w * d;
}

inline void add_completion(MixLanes& s, std::size_t lane, double own, double theirs, double before,
                           double after, double w) {
  const double shift = w * (theirs - own), d = (own - theirs) * (own - theirs);
  const double size = std::abs(own) + std::abs(theirs) + std::abs(before);
  const double free = 2 * before - own;
  s.shift[lane] += shift;
  s.magnitude[lane] += size;
  s.square[lane] += size * size;
  s.off[lane] += beyond(after, before + shift, size);
  s.before[lane] += 0.5 * (free - theirs) * (free - theirs) + (0.5 - w) * d;
  s.after[lane] += (after - theirs) * (after - theirs);
}

STARLING_FOR_PROCESSORS void add_answers(MixLanes& s, const float* own, const float* theirs,
                                         const float* lent, const float* before, const float* after,
                                         std::size_t n, double w, FreeHalf half) {
  MixLanes local = s;
  std::size_t f = 0;
  for (; f + kLanes <= n; f += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i)
      add_answer(local, i, own[f + i], theirs[f + i], lent[f + i], before[f + i], after[f + i], w, half);
  }
  for (; f < n; ++f) add_answer(local, 0, own[f], theirs[f], lent[f], before[f], after[f], w, half);
  s = local;
}

STARLING_FOR_PROCESSORS void add_completions(MixLanes& s, const float* own, const float* theirs,
                                             const float* before, const float* after, std::size_t n,
                                             double w) {
  MixLanes local = s;
  std::size_t f = 0;
  for (; f + kLanes <= n; f += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i)
      add_completion(local, i, own[f + i], theirs[f + i], before[f + i], after[f + i], w);
  }
  for (; f < n; ++f) add_completion(local, 0, own[f], theirs[f], before[f], after[f], w);
  s = local;
}

// Local lanes, which the compiler keeps in registers.
struct TotalLanes {
  Lanes sums{}, magnitudes{};

  void add(std::size_t lane, double sum, double value) {
    sums[lane] += sum;
    magnitudes[lane] += std::abs(value);
  }
  Total total() const { return {sum(sums), sum(magnitudes)}; }
};

STARLING_FOR_PROCESSORS Total add_values(const float* values, std::size_t n) {
  TotalLanes lanes;
  std::size_t f = 0;
  for (; f + kLanes <= n; f += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) lanes.add(i, values[f + i], values[f + i]);
  }
  for (; f < n; ++f) lanes.add(0, values[f], values[f]);
  return lanes.total();
}

STARLING_FOR_PROCESSORS Total add_changes(const float* before, const float* after, std::size_t n) {
  TotalLanes lanes;
  const auto change = [&](std::size_t f) {
    return static_cast<double>(after[f]) - static_cast<double>(before[f]);
  };
  std::size_t f = 0;
  for (; f + kLanes <= n; f += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) lanes.add(i, change(f + i), after[f + i]);
  }
  for (; f < n; ++f) lanes.add(0, change(f), after[f]);
  return lanes.total();
}

}  // namespace

MixSums sums_of_answer(std::span<const float> own, std::span<const float> theirs, std::span<const float> lent,
                       std::span<const float> before, std::span<const float> after, double w) {
  MixLanes lanes;
  const FreeHalf half = lent.empty() ? FreeHalf{1, 1, 0} : FreeHalf{0.5, 2, 1};
  const float* const loan = lent.empty() ? own.data() : lent.data();  // read and multiplied by 0
  add_answers(lanes, own.data(), theirs.data(), loan, before.data(), after.data(), own.size(), w, half);
  return sum(lanes);
}

MixSums sums_of_completion(std::span<const float> own, std::span<const float> theirs,
                           std::span<const float> before, std::span<const float> after, double w) {
  MixLanes lanes;
  add_completions(lanes, own.data(), theirs.data(), before.data(), after.data(), own.size(), w);
  return sum(lanes);
}

Total total_of(std::span<const float> values) { return add_values(values.data(), values.size()); }

Total change_of(std::span<const float> before, std::span<const float> after) {
  return add_changes(before.data(), after.data(), after.size());
}

}  // namespace starling::lab

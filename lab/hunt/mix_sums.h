// Sums over the floats of one side's mix, in double, which show whether the mix is correct and how it changed
// the energy (World::energy()). A mix preserves the mean, so distances may be measured from any point: here
// from the other side's value.
#pragma once

#include <span>

namespace starling::lab {

// A unit in the last place of a float.
inline constexpr double kFloatUlp = 0x1p-23;

struct MixSums {
  double shift = 0;      // of the sum of the parameters: w (theirs - own)
  double magnitude = 0;  // of all values that take part, to bound rounding errors
  double square = 0;
  double off = 0;                              // error of the values beyond rounding; 0 if the mix is correct
  double energy_before = 0, energy_after = 0;  // of the parts that changed
};

// All spans have the same length. `before` and `after` are the side's own parameters.

// The responder: `own` is the value with which it answered, `lent` its own snapshot that is lent, or empty.
MixSums sums_of_answer(std::span<const float> own, std::span<const float> theirs, std::span<const float> lent,
                       std::span<const float> before, std::span<const float> after, double w);
// The initiator: `own` is the snapshot that it sent.
MixSums sums_of_completion(std::span<const float> own, std::span<const float> theirs,
                           std::span<const float> before, std::span<const float> after, double w);

// The sum of the values, and of their magnitudes.
struct Total {
  double sum = 0, magnitude = 0;
};
Total total_of(std::span<const float> values);
// The change of the sum from earlier values to later ones, and the magnitudes of the later.
// REQUIRES: equal lengths.
Total change_of(std::span<const float> before, std::span<const float> after);

}  // namespace starling::lab

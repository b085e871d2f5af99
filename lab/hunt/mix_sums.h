// Sums over the floats of one side's mix, in double, that say whether it is what it must be and what it did
// to the energy of «Overlap». With the mean kept, distances may be measured from any point: here from the
// other side's value.
#pragma once

#include <span>

namespace starling::lab {

// A unit in the last place of a float.
inline constexpr double kFloatUlp = 0x1p-23;

struct MixSums {
  double shift = 0;      // of the sum of the parameters: w (theirs - own)
  double magnitude = 0;  // of all that took part, for judging roundings
  double square = 0;
  double off = 0;  // by how much values are not what they must be, beyond their rounding: 0 if all is well
  double energy_before = 0, energy_after = 0;  // of the parts that changed
};

// All spans are of one length. `before` and `after` are the side's own parameters.

// own is the value it answered with; `lent` its own snapshot that is out, or empty.
MixSums sums_of_answer(std::span<const float> own, std::span<const float> theirs, std::span<const float> lent,
                       std::span<const float> before, std::span<const float> after, double w);
// own is the snapshot it sent.
MixSums sums_of_completion(std::span<const float> own, std::span<const float> theirs,
                           std::span<const float> before, std::span<const float> after, double w);

// The sum of the values, and of their magnitudes.
struct Total {
  double sum = 0, magnitude = 0;
};
Total total_of(std::span<const float> values);

}  // namespace starling::lab

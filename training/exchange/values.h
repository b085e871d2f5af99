// What may touch a replica, and how far two chunks are apart: the passes over private buffers that every rule
// makes before it mixes.
#pragma once

#include <span>

namespace starling::training {

// True if no value is NaN or infinite. One vectorized pass.
bool all_finite(std::span<const float> values);

// No value that comes from a peer may be larger in magnitude: sums and differences of values within it stay
// finite, so no peer can make another's parameters overflow. Honest parameters are nowhere near (1.15e18).
inline constexpr float kLargestMagnitude = 0x1p60f;
// True if every value is within kLargestMagnitude, NaN excluded. One vectorized pass.
bool all_acceptable(std::span<const float> values);

// Sums of squares over two vectors of values.
struct Measure {
  double distance_square = 0;  // |theirs - own|^2
  double norm_square = 0;      // |own|^2
  bool acceptable = true;      // all of theirs; the sums mean nothing where it is false
  double distance() const;
};
// REQUIRES: as many of either; own are acceptable. Sums in a fixed order, whatever the processor.
Measure measure(std::span<const float> theirs, std::span<const float> own);

// out = 2 out - lent: the half that is left of values of which `lent` have been lent.
void free_half(std::span<const float> lent, std::span<float> out);

// x += delta, and x += w (theirs - own), of private vectors. REQUIRES: as many of each.
void add(std::span<const float> delta, std::span<float> x);
void mix(std::span<const float> theirs, std::span<const float> own, float w, std::span<float> x);

}  // namespace starling::training

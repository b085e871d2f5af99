// What the host does with values between pinned memory and an exchange, each in one pass, compiled for
// several processors.
#pragma once

#include <cstddef>

namespace starling::kernels::cuda {

// to = from. Returns the largest magnitude among them, where NaN is larger than infinity; 0 of none.
float copy_and_look(const float* from, float* to, std::size_t n);
// The larger of two such magnitudes.
float larger_magnitude(float a, float b);
// out = w (theirs - own).
void scaled_difference(const float* theirs, const float* own, float w, float* out, std::size_t n);

}  // namespace starling::kernels::cuda

// Between the arena's float32 weights and what is multiplied in bfloat16; and images with room around them,
// for convolutions whose padding cuDNN does not know.
#pragma once

#include <cstddef>

#include "kernels/cuda/format.h"
#include "kernels/cuda/runtime.h"

namespace starling::kernels::cuda {

// to[i] = from[i], rounded to the nearest.
void to_bf16(Stream& stream, const float* from, Bfloat16* to, std::size_t n);

// Filters [out, in, k, k] and, as cuDNN wants them beside channels-last images, [out, k, k, in]. `in` counts a
// group's channels, `places` is k x k.
void filters_to_bf16(Stream& stream, const float* from, Bfloat16* to, int out, int in, int places);
void filters_from_bf16(Stream& stream, const Bfloat16* from, float* to, int out, int in, int places);

// `inner` in the middle of `outer`, `above` rows and `left` columns from its corner: zeros around, or what is
// around left out. Both in one number format.
void enclose(Stream& stream, const Activation& inner, const float* from, const Activation& outer, int above,
             int left, float* to);
void cut_out(Stream& stream, const Activation& outer, const float* from, const Activation& inner, int above,
             int left, float* to);

}  // namespace starling::kernels::cuda

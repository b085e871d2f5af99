// Loops over whole activations, compiled for several processors.
#pragma once

#include <cstddef>

#include "base/bfloat16.h"

namespace starling::kernels::cpu {

// For float and for bfloat16, which is computed as float and rounded.

// y = max(x, 0).
void relu(const float* x, float* y, std::size_t n);
void relu(const Bfloat16* x, Bfloat16* y, std::size_t n);
// dx = y > 0 ? dy : 0; dx may be dy.
void mask_where_not_positive(const float* y, const float* dy, float* dx, std::size_t n);
void mask_where_not_positive(const Bfloat16* y, const Bfloat16* dy, Bfloat16* dx, std::size_t n);
// The same for both; da may be dy.
void mask_to_both(const float* y, const float* dy, float* da, float* db, std::size_t n);
void mask_to_both(const Bfloat16* y, const Bfloat16* dy, Bfloat16* da, Bfloat16* db, std::size_t n);
// y = a + b, and max(a + b, 0); y may be a.
void add(const float* a, const float* b, float* y, std::size_t n);
void add(const Bfloat16* a, const Bfloat16* b, Bfloat16* y, std::size_t n);
void add_relu(const float* a, const float* b, float* y, std::size_t n);
void add_relu(const Bfloat16* a, const Bfloat16* b, Bfloat16* y, std::size_t n);

}  // namespace starling::kernels::cpu

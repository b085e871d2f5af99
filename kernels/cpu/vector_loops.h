// Loops over whole activations that need no library, compiled for several processors.
#pragma once

#include <cstddef>

namespace starling::kernels::cpu {

// y = max(x, 0).
void relu(const float* x, float* y, std::size_t n);
// dx = y > 0 ? dy : 0; dx may be dy.
void mask_where_not_positive(const float* y, const float* dy, float* dx, std::size_t n);
// Both are that; da may be dy.
void mask_to_both(const float* y, const float* dy, float* da, float* db, std::size_t n);
// y = a + b, and max(a + b, 0); y may be a.
void add(const float* a, const float* b, float* y, std::size_t n);
void add_relu(const float* a, const float* b, float* y, std::size_t n);

}  // namespace starling::kernels::cpu

#include "kernels/cpu/vector_loops.h"

#include "base/processor.h"

namespace starling::kernels::cpu {

STARLING_FOR_PROCESSORS void relu(const float* x, float* y, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0.0F;
}

STARLING_FOR_PROCESSORS void mask_where_not_positive(const float* y, const float* dy, float* dx,
                                                     std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = dy[i];
    dx[i] = y[i] > 0 ? gradient : 0.0F;
  }
}

STARLING_FOR_PROCESSORS void mask_to_both(const float* y, const float* dy, float* da, float* db,
                                          std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = dy[i], passed = y[i] > 0 ? gradient : 0.0F;
    da[i] = passed;
    db[i] = passed;
  }
}

STARLING_FOR_PROCESSORS void add(const float* a, const float* b, float* y, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

STARLING_FOR_PROCESSORS void add_relu(const float* a, const float* b, float* y, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const float sum = a[i] + b[i];
    y[i] = sum > 0 ? sum : 0.0F;
  }
}

}  // namespace starling::kernels::cpu

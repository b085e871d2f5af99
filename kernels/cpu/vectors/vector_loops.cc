#include "kernels/cpu/vectors/vector_loops.h"

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

// The same for bfloat16. A value is positive if its bits, as a signed 16-bit number, are (also NaNs without a
// sign).

STARLING_FOR_PROCESSORS void relu(const Bfloat16* x, Bfloat16* y, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t bits = x[i].bits;
    y[i].bits = static_cast<std::int16_t>(bits) > 0 ? bits : std::uint16_t{0};
  }
}

STARLING_FOR_PROCESSORS void mask_where_not_positive(const Bfloat16* y, const Bfloat16* dy, Bfloat16* dx,
                                                     std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t gradient = dy[i].bits;
    dx[i].bits = static_cast<std::int16_t>(y[i].bits) > 0 ? gradient : std::uint16_t{0};
  }
}

STARLING_FOR_PROCESSORS void mask_to_both(const Bfloat16* y, const Bfloat16* dy, Bfloat16* da, Bfloat16* db,
                                          std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t gradient = dy[i].bits;
    const std::uint16_t passed = static_cast<std::int16_t>(y[i].bits) > 0 ? gradient : std::uint16_t{0};
    da[i].bits = passed;
    db[i].bits = passed;
  }
}

STARLING_FOR_PROCESSORS void add(const Bfloat16* a, const Bfloat16* b, Bfloat16* y, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) y[i] = Bfloat16::round(a[i].value() + b[i].value());
}

STARLING_FOR_PROCESSORS void add_relu(const Bfloat16* a, const Bfloat16* b, Bfloat16* y, std::size_t n) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < n; ++i) {
    const float sum = a[i].value() + b[i].value();
    y[i] = Bfloat16::round(sum > 0 ? sum : 0.0F);
  }
}

}  // namespace starling::kernels::cpu

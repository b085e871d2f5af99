// The inner loops of operations that treat each channel separately (normalizations, global pools), over rows
// of 16 values. A row has 16 channels of one pixel, or 16 / k neighboring pixels of k channels, down to 16
// pixels of one channel. Per-channel values are given as 16 floats, one for each place of the row, so the
// same loops serve every format of layout.h.
//
// There is one set for each instruction set (loops_avx2.cc, loops_avx512.cc, and loops.cc for all others),
// made from the same text (loops_inl.h).
#pragma once

#include <cstddef>
#include <type_traits>

#include "base/bfloat16.h"

namespace starling::kernels::cpu::channels {

inline constexpr int kRow = 16;

// In each of `samples` samples, `sample_step` floats apart: `rows` rows, `step` floats apart, with `lanes`
// floats in use, then one more row with `tail` floats in use.
struct Run {
  int rows;
  std::ptrdiff_t step;
  int lanes;  // 1 to 16
  int tail;   // 0 to 15
  int samples = 1;
  std::ptrdiff_t sample_step = 0;
};

// y = (x - origin) a + b, 16 of each. Subtracting first keeps the precision of values that are close together
// and far from 0.
struct Affine {
  const float *origin, *a, *b;
  bool relu;  // max(y, 0)
};

// For activations of T, float or Bfloat16; sums and per-channel values are float.
template <class T>
struct RowLoops {
  // sums[l] += x - origin and sums[16 + l] += (x - origin)^2, over all rows.
  void (*moments)(const Run&, const T* x, const float* origin, float* sums);
  void (*affine)(const Run&, const T* x, const Affine&, T* y);
  // With d = dy, or 0 where the affine's ReLU is 0 (derived from x, so that y is not read): sums[l] += d and
  // sums[16 + l] += d (x - origin).
  void (*gradient_sums)(const Run&, const T* x, const T* dy, const Affine&, float* sums);
  // dx = p d + q (x - origin) + r.
  void (*gradient)(const Run&, const T* x, const T* dy, const Affine&, const float* p, const float* q,
                   const float* r, T* dx);
  void (*fill)(const Run&, const float* row, T* y);
};

struct VectorSums {
  float first, second;
};

// For vectors of n features; per-feature arrays have n floats.
struct VectorLoops {
  float (*mean)(int n, const float* x);
  // Sums of x - origin and of (x - origin)^2.
  VectorSums (*moments)(int n, const float* x, float origin);
  void (*affine)(int n, const float* x, float origin, float factor, const float* scale, const float* shift,
                 float* y);
  // dscale += dy (x - origin) factor, dshift += dy. Returns the sums of g and g (x - origin), where g = scale
  // dy.
  VectorSums (*gradient_sums)(int n, const float* x, const float* dy, float origin, float factor,
                              const float* scale, float* dscale, float* dshift);
  // dx = p scale dy + q (x - origin) + r.
  void (*gradient)(int n, const float* x, const float* dy, float origin, const float* scale, float p, float q,
                   float r, float* dx);
};

struct Loops {
  RowLoops<float> f32;
  RowLoops<Bfloat16> bf16;
  VectorLoops vectors;

  template <class T>
  const RowLoops<T>& rows() const {
    if constexpr (std::is_same_v<T, float>) {
      return f32;
    } else {
      return bf16;
    }
  }
};

// All sets that this processor runs, the widest first, then null; and the widest.
const Loops* const* all_loops();
const Loops& loops();

namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}

}  // namespace starling::kernels::cpu::channels

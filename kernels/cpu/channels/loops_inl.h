// The text of the loops; loops.cc, loops_avx2.cc and loops_avx512.cc include it after defining a vector: V,
// of kWidth floats, load_any, store_any, load_some and store_some (of the first floats, with 0 for the
// others), and kUnroll, the number of rows that are summed side by side. Everything is static, so that code
// for a wider processor is never linked into another file.

#define INLINE __attribute__((always_inline)) inline

constexpr int kParts = kRow / kWidth;

#include "kernels/cpu/vectors/lanes_inl.h"

// bfloat16 is stored in half the bytes and computed as float.
typedef std::uint16_t Halves __attribute__((vector_size(kWidth * 2), may_alias, aligned(2)));
typedef std::uint32_t Bits __attribute__((vector_size(kWidth * 4)));

INLINE V load_any(const Bfloat16* p) {
  return reinterpret_cast<V>(__builtin_convertvector(*reinterpret_cast<const Halves*>(p), Bits) << 16);
}
INLINE void store_any(Bfloat16* p, V value) {  // Bfloat16::round
  const Bits all = reinterpret_cast<Bits>(value);
  const Bits rounded = (all + 0x7fff + ((all >> 16) & 1)) >> 16;
  *reinterpret_cast<Halves*>(p) = __builtin_convertvector(value == value ? rounded : Bits{} + 0x7fc0, Halves);
}
INLINE V load_some(const Bfloat16* p, int count) {
  Bfloat16 values[kWidth] = {};
  for (int i = 0; i < kWidth && i < count; ++i) values[i] = p[i];
  return load_any(values);
}
INLINE void store_some(Bfloat16* p, V value, int count) {
  Bfloat16 values[kWidth];
  store_any(values, value);
  for (int i = 0; i < kWidth && i < count; ++i) p[i] = values[i];
}

struct Row {
  V part[kParts];
};

// f(k) for each part.
template <class F>
INLINE void parts(const F& f) {
#pragma GCC unroll 4
  for (int k = 0; k < kParts; ++k) f(k);
}

template <class T>
INLINE Row load_row(const T* p) {
  Row row;
  parts([&](int k) __attribute__((always_inline)) { row.part[k] = load_any(p + k * kWidth); });
  return row;
}
template <class T>
INLINE void store_row(T* p, const Row& row) {
  parts([&](int k) __attribute__((always_inline)) { store_any(p + k * kWidth, row.part[k]); });
}
template <class T>
INLINE Row load_row(const T* p, int count) {
  Row row;
  parts([&](int k)
            __attribute__((always_inline)) { row.part[k] = load_some(p + k * kWidth, count - k * kWidth); });
  return row;
}
template <class T>
INLINE void store_row(T* p, const Row& row, int count) {
  parts([&](int k)
            __attribute__((always_inline)) { store_some(p + k * kWidth, row.part[k], count - k * kWidth); });
}

// Calls body(offset, slot) for whole rows, where slot < kUnroll selects one of several sums, and some(offset,
// count) for partial rows.
template <class Body, class Some>
INLINE void for_rows(const Run& run, const Body& body, const Some& some) {
  const int rows = run.rows, lanes = run.lanes, tail = run.tail;
  const std::ptrdiff_t step = run.step;
  std::ptrdiff_t first = 0;
  for (int n = 0; n < run.samples; ++n, first += run.sample_step) {
    std::ptrdiff_t at = first;
    if (lanes == kRow) {
      int i = 0;
      for (; i + kUnroll <= rows; i += kUnroll) {
#pragma GCC unroll 4
        for (int slot = 0; slot < kUnroll; ++slot) {
          body(at, slot);
          at += step;
        }
      }
      for (; i < rows; ++i, at += step) body(at, 0);
    } else {
      for (int i = 0; i < rows; ++i, at += step) some(at, lanes);
    }
    if (tail > 0) some(at, tail);
  }
}

#define BODY [&](std::ptrdiff_t at, int slot) __attribute__((always_inline))
#define SOME [&](std::ptrdiff_t at, int count) __attribute__((always_inline))
#define PART [&](int k) __attribute__((always_inline))

struct TwoSums {
  Row first[kUnroll], second[kUnroll];

  INLINE TwoSums() {
#pragma GCC unroll 4
    for (int slot = 0; slot < kUnroll; ++slot) {
      parts([&](int k) __attribute__((always_inline)) { first[slot].part[k] = second[slot].part[k] = V{}; });
    }
  }
  // Leaves the sums of all slots in the first.
  INLINE void merge_slots() {
#pragma GCC unroll 4
    for (int slot = 1; slot < kUnroll; ++slot) {
      parts([&](int k) __attribute__((always_inline)) {
        first[0].part[k] += first[slot].part[k];
        second[0].part[k] += second[slot].part[k];
      });
    }
  }
  INLINE void add_to(float* sums) {
    merge_slots();
    parts([&](int k) __attribute__((always_inline)) {
      float* to = sums + k * kWidth;
      store_any(to, load_any(to) + first[0].part[k]);
      store_any(to + kRow, load_any(to + kRow) + second[0].part[k]);
    });
  }
};

// Of x - origin and its square.
template <class T>
INLINE TwoSums summed_moments(const Run& run, const T* x, const Row& origin) {
  TwoSums sum;
  const auto add = [&](V off, int slot, int k) __attribute__((always_inline)) {
    sum.first[slot].part[k] += off;
    sum.second[slot].part[k] += off * off;
  };
  for_rows(
      run,
      BODY {
        const Row row = load_row(x + at);
        parts(PART { add(row.part[k] - origin.part[k], slot, k); });
      },
      SOME {
        const Row row = load_row(x + at, count);
        parts(PART { add(first_of(row.part[k] - origin.part[k], count - k * kWidth, V{}), 0, k); });
      });
  return sum;
}

template <class T>
static void moments(const Run& run, const T* x, const float* origin, float* sums) {
  summed_moments(run, x, load_row(origin)).add_to(sums);
}

struct Loaded {
  Row origin, a, b;

  explicit INLINE Loaded(const Affine& it)
      : origin(load_row(it.origin)), a(load_row(it.a)), b(load_row(it.b)) {}

  template <bool Relu>
  INLINE V operator()(V x, int k) const {
    const V y = (x - origin.part[k]) * a.part[k] + b.part[k];
    return !Relu ? y : y > 0 ? y : V{};
  }
  // dy, or 0 where the ReLU is 0.
  template <bool Relu>
  INLINE V passed(V off, V dy, int k) const {
    if constexpr (!Relu) return dy;
    const V y = off * a.part[k] + b.part[k];
    return y > 0 ? dy : V{};
  }
};

template <bool Relu, class T>
INLINE void affine_rows(const Run& run, const T* x, const Affine& it, T* y) {
  const Loaded map(it);
  for_rows(
      run,
      [&](std::ptrdiff_t at, int) __attribute__((always_inline)) {
        Row row = load_row(x + at);
        parts(PART { row.part[k] = map.template operator()<Relu>(row.part[k], k); });
        store_row(y + at, row);
      },
      SOME {
        Row row = load_row(x + at, count);
        parts(PART { row.part[k] = map.template operator()<Relu>(row.part[k], k); });
        store_row(y + at, row, count);
      });
}
template <class T>
static void affine(const Run& run, const T* x, const Affine& it, T* y) {
  if (it.relu) {
    affine_rows<true>(run, x, it, y);
  } else {
    affine_rows<false>(run, x, it, y);
  }
}

template <bool Relu, class T>
INLINE void gradient_sums_rows(const Run& run, const T* x, const T* dy, const Affine& it, float* sums) {
  const Loaded map(it);
  TwoSums sum;
  for_rows(
      run,
      BODY {
        const Row row = load_row(x + at), drow = load_row(dy + at);
        parts(PART {
          const V off = row.part[k] - map.origin.part[k];
          const V d = map.template passed<Relu>(off, drow.part[k], k);
          sum.first[slot].part[k] += d;
          sum.second[slot].part[k] += d * off;
        });
      },
      SOME {
        const Row row = load_row(x + at, count), drow = load_row(dy + at, count);  // d is 0 beyond
        parts(PART {
          const V off = row.part[k] - map.origin.part[k];
          const V d = map.template passed<Relu>(off, drow.part[k], k);
          sum.first[0].part[k] += d;
          sum.second[0].part[k] += d * off;
        });
      });
  sum.add_to(sums);
}
template <class T>
static void gradient_sums(const Run& run, const T* x, const T* dy, const Affine& it, float* sums) {
  if (it.relu) {
    gradient_sums_rows<true>(run, x, dy, it, sums);
  } else {
    gradient_sums_rows<false>(run, x, dy, it, sums);
  }
}

template <bool Relu, class T>
INLINE void gradient_rows(const Run& run, const T* x, const T* dy, const Affine& it, const float* p_row,
                          const float* q_row, const float* r_row, T* dx) {
  const Loaded map(it);
  const Row p = load_row(p_row), q = load_row(q_row), r = load_row(r_row);
  const auto compute = [&](const Row& row, const Row& drow) __attribute__((always_inline)) {
    Row result;
    parts(PART {
      const V off = row.part[k] - map.origin.part[k];
      const V d = map.template passed<Relu>(off, drow.part[k], k);
      result.part[k] = p.part[k] * d + (q.part[k] * off + r.part[k]);
    });
    return result;
  };
  for_rows(
      run,
      [&](std::ptrdiff_t at, int) __attribute__((always_inline)) {
        store_row(dx + at, compute(load_row(x + at), load_row(dy + at)));
      },
      SOME { store_row(dx + at, compute(load_row(x + at, count), load_row(dy + at, count)), count); });
}
template <class T>
static void gradient(const Run& run, const T* x, const T* dy, const Affine& it, const float* p,
                     const float* q, const float* r, T* dx) {
  if (it.relu) {
    gradient_rows<true>(run, x, dy, it, p, q, r, dx);
  } else {
    gradient_rows<false>(run, x, dy, it, p, q, r, dx);
  }
}

template <class T>
static void fill(const Run& run, const float* row, T* y) {
  const Row value = load_row(row);
  for_rows(
      run, [&](std::ptrdiff_t at, int) __attribute__((always_inline)) { store_row(y + at, value); },
      SOME { store_row(y + at, value, count); });
}

// A vector as rows.
INLINE Run features(int n) { return {n / kRow, kRow, kRow, n % kRow}; }

static void vector_affine(int n, const float* x, float origin, float factor, const float* scale,
                          const float* shift, float* y) {
  const auto compute = [&](const Row& row, const Row& a, const Row& b) __attribute__((always_inline)) {
    Row result;
    parts(PART { result.part[k] = (row.part[k] - origin) * factor * a.part[k] + b.part[k]; });
    return result;
  };
  for_rows(
      features(n),
      [&](std::ptrdiff_t at, int) __attribute__((always_inline)) {
        store_row(y + at, compute(load_row(x + at), load_row(scale + at), load_row(shift + at)));
      },
      SOME {
        store_row(y + at,
                  compute(load_row(x + at, count), load_row(scale + at, count), load_row(shift + at, count)),
                  count);
      });
}

// The sums over all slots and lanes.
INLINE VectorSums totals(TwoSums sums) {
  sums.merge_slots();
  V first{}, second{};
  parts([&](int k) __attribute__((always_inline)) {
    first += sums.first[0].part[k];
    second += sums.second[0].part[k];
  });
  return {sum_of(first), sum_of(second)};
}

static float vector_mean(int n, const float* x) {
  TwoSums sum;  // of which only the first is used
  for_rows(
      features(n),
      BODY {
        const Row row = load_row(x + at);
        parts(PART { sum.first[slot].part[k] += row.part[k]; });
      },
      SOME {
        const Row row = load_row(x + at, count);
        parts(PART { sum.first[0].part[k] += row.part[k]; });
      });
  return totals(sum).first / static_cast<float>(n);
}

static VectorSums vector_moments(int n, const float* x, float origin) {
  Row row;
  parts(PART { row.part[k] = V{} + origin; });
  return totals(summed_moments(features(n), x, row));
}

static VectorSums vector_gradient_sums(int n, const float* x, const float* dy, float origin, float factor,
                                       const float* scale, float* dscale, float* dshift) {
  TwoSums sum;
  const auto add = [&](const Row& row, const Row& drow, const Row& a, Row& to_scale, Row& to_shift, int slot)
      __attribute__((always_inline)) {
    parts(PART {
      const V d = drow.part[k], off = row.part[k] - origin, g = a.part[k] * d;
      sum.first[slot].part[k] += g;
      sum.second[slot].part[k] += g * off;
      to_scale.part[k] += d * off * factor;
      to_shift.part[k] += d;
    });
  };
  for_rows(
      features(n),
      BODY {
        Row to_scale = load_row(dscale + at), to_shift = load_row(dshift + at);
        add(load_row(x + at), load_row(dy + at), load_row(scale + at), to_scale, to_shift, slot);
        store_row(dscale + at, to_scale);
        store_row(dshift + at, to_shift);
      },
      SOME {
        Row to_scale = load_row(dscale + at, count), to_shift = load_row(dshift + at, count);
        add(load_row(x + at, count), load_row(dy + at, count), load_row(scale + at, count), to_scale,
            to_shift, 0);
        store_row(dscale + at, to_scale, count);
        store_row(dshift + at, to_shift, count);
      });
  return totals(sum);
}

static void vector_gradient(int n, const float* x, const float* dy, float origin, const float* scale, float p,
                            float q, float r, float* dx) {
  const auto compute = [&](const Row& row, const Row& drow, const Row& a) __attribute__((always_inline)) {
    Row result;
    parts(PART { result.part[k] = p * a.part[k] * drow.part[k] + (q * (row.part[k] - origin) + r); });
    return result;
  };
  for_rows(
      features(n),
      [&](std::ptrdiff_t at, int) __attribute__((always_inline)) {
        store_row(dx + at, compute(load_row(x + at), load_row(dy + at), load_row(scale + at)));
      },
      SOME {
        store_row(dx + at,
                  compute(load_row(x + at, count), load_row(dy + at, count), load_row(scale + at, count)),
                  count);
      });
}

template <class T>
static constexpr RowLoops<T> row_loops() {
  return {moments<T>, affine<T>, gradient_sums<T>, gradient<T>, fill<T>};
}
static constexpr Loops all() {
  return {row_loops<float>(),
          row_loops<Bfloat16>(),
          {vector_mean, vector_moments, vector_affine, vector_gradient_sums, vector_gradient}};
}

#undef INLINE
#undef BODY
#undef SOME
#undef PART

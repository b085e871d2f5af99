// The text of the loops; loops.cc, loops_avx2.cc and loops_avx512.cc include it after defining a vector: V,
// of kWidth floats, load_any, store_any, load_some and store_some (of the first floats, with 0 for the
// others), and the tile of a product, kTileRows x kTileVectors vectors. Everything is static, so that code
// for a wider processor is never linked into another file.

#define INLINE __attribute__((always_inline)) inline

typedef std::uint32_t Word __attribute__((vector_size(kWidth * 4)));

// value - 0 is the value for every float, so it needs no instruction; 0 + value is another one for -0.
INLINE V everywhere(float value) { return value - V{}; }

#include "kernels/cpu/vectors/lanes_inl.h"

// Calls body(at, count) for the vectors of n floats, where count = kWidth for whole ones.
template <class Whole_, class Some>
INLINE void for_vectors(int n, const Whole_& whole, const Some& some) {
  int at = 0;
  for (; at + kWidth <= n; at += kWidth) whole(at);
  if (at < n) some(at, n - at);
}

// ---- products ----

template <int kRows, int kVectors, bool kPartial>
INLINE void product_tile(const Product& it, int row, int column, int count) {
  V sums[kRows][kVectors];
  float* c = it.c + row * it.c_row + column;
  const auto load = [&](const float* p, int v) __attribute__((always_inline)) {
    return kPartial && v + 1 == kVectors ? load_some(p + v * kWidth, count) : load_any(p + v * kWidth);
  };
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = it.adds ? load(c + r * it.c_row, v) : V{};
  }
  const float *a = it.a + row * it.a_row, *b = it.b + column;
  for (int k = 0; k < it.depth; ++k, a += it.a_column, b += it.b_row) {
    V more[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) more[v] = load(b, v);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V factor = everywhere(a[r * it.a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * more[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + r * it.c_row + v * kWidth;
      if (kPartial && v + 1 == kVectors)
        store_some(to, sums[r][v], count);
      else
        store_any(to, sums[r][v]);
    }
  }
}

// Rows are the inner loop, so that the columns of b stay in the cache.
template <int kVectors, bool kPartial>
static void product_columns(const Product& it, int column, int count) {
  int row = 0;
  for (; row + kTileRows <= it.rows; row += kTileRows)
    product_tile<kTileRows, kVectors, kPartial>(it, row, column, count);
  for (; row + 4 <= it.rows; row += 4) product_tile<4, kVectors, kPartial>(it, row, column, count);
  for (; row + 2 <= it.rows; row += 2) product_tile<2, kVectors, kPartial>(it, row, column, count);
  if (row < it.rows) product_tile<1, kVectors, kPartial>(it, row, column, count);
}

static void product_of_tiles(const Product& it) {
  int column = 0;
  for (; column + kTileVectors * kWidth <= it.columns; column += kTileVectors * kWidth)
    product_columns<kTileVectors, false>(it, column, 0);
  for (; column + kWidth <= it.columns; column += kWidth) product_columns<1, false>(it, column, 0);
  if (column < it.columns) product_columns<1, true>(it, column, it.columns - column);
}

// 4 x 4 floats.
INLINE void transpose_block(const float* from, std::ptrdiff_t from_row, float factor, float* to,
                            std::ptrdiff_t to_row) {
  Quad in[4], pairs[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) in[i] = *reinterpret_cast<const Quad*>(from + i * from_row) * factor;
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {  // columns 0 and 1, and 2 and 3, of rows i and i + 2
    pairs[i] = __builtin_shufflevector(in[i], in[i + 2], 0, 4, 1, 5);
    pairs[i + 2] = __builtin_shufflevector(in[i], in[i + 2], 2, 6, 3, 7);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const Quad a = pairs[2 * i], b = pairs[2 * i + 1];
    *reinterpret_cast<Quad*>(to + 2 * i * to_row) = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    *reinterpret_cast<Quad*>(to + (2 * i + 1) * to_row) = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  }
}

constexpr int kLine = 16;  // floats of a cache line

static void transpose(int rows, int columns, const float* from, std::ptrdiff_t from_row, float factor,
                      float* to, std::ptrdiff_t to_row) {
  const int whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  // In squares, so that cache lines are written as a whole. The rows of one are far apart: the processor does
  // not fetch them ahead.
  const auto fetch = [&](int row, int column) __attribute__((always_inline)) {
    for (int i = row; i < row + kLine && i < rows; ++i) __builtin_prefetch(from + i * from_row + column);
  };
  for (int column = 0; column < columns; column += kLine) fetch(0, column);
  for (int column = 0; column < whole_columns; column += kLine) {
    for (int row = 0; row < whole_rows; row += kLine) {
      fetch(row + kLine, column);
      for (int j = column; j < column + kLine && j < whole_columns; j += 4) {
        for (int i = row; i < row + kLine && i < whole_rows; i += 4)
          transpose_block(from + i * from_row + j, from_row, factor, to + j * to_row + i, to_row);
      }
    }
  }
  for (int j = 0; j < columns; ++j) {
    const int first = j < whole_columns ? whole_rows : 0;
    for (int i = first; i < rows; ++i) to[j * to_row + i] = from[i * from_row + j] * factor;
  }
}

// Large products: their parts, then the whole.
constexpr int kPanel = kTileVectors * kWidth;

// The sums of a tile, and a fetch of the rows of c that will receive them.
INLINE void begin_tile(V (&sums)[kTileRows][kTileVectors], const float* c, std::ptrdiff_t c_row) {
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    __builtin_prefetch(c + r * c_row, 1);
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) sums[r][v] = V{};
  }
}

#include "kernels/cpu/sequences/paired_product_inl.h"
#include "kernels/cpu/sequences/plain_product_inl.h"
// After its schemes.
#include "kernels/cpu/sequences/large_product_inl.h"

// ---- functions ----

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its series, whose last coefficients are fitted (as in
// Cephes' expf): 1 unit in the last place. Results below the smallest normal number are 0, those that are too
// large infinite.
INLINE V exp_of(V x) {
  const V low = everywhere(-87.0F), high = everywhere(88.5F);
  const V inside = x < low ? low : x > high ? high : x;
  const V n = (inside * 1.44269504F + 12582912.0F) - 12582912.0F;  // rounds: that is 1.5 x 2^23
  const V r = (inside - n * 0.693359375F) - n * -2.12194440e-4F;
  V series = everywhere(1.9875691500e-4F);
  series = series * r + 1.3981999507e-3F;
  series = series * r + 8.3334519073e-3F;
  series = series * r + 4.1665795894e-2F;
  series = series * r + 1.6666665459e-1F;
  series = series * r + 5.0000001201e-1F;
  series = series * (r * r) + r + 1.0F;
  const Whole power = (__builtin_convertvector(n, Whole) + 127) << 23;
  const V result = series * reinterpret_cast<V>(power);
  return x < low ? V{} : x > high ? everywhere(__builtin_inff()) : x == x ? result : x;
}
INLINE V sigmoid_of(V x) { return 1.0F / (1.0F + exp_of(-x)); }

static float largest(int n, const float* x) {
  V most = everywhere(x[0]);
  const auto take = [&](V value) __attribute__((always_inline)) { most = value > most ? value : most; };
  for_vectors(
      n, [&](int at) __attribute__((always_inline)) { take(load_any(x + at)); },
      [&](int at, int count)
          __attribute__((always_inline)) { take(first_of(load_some(x + at, count), count, most)); });
  return largest_of(most);
}

static float exponentials(int n, float* x, float minus) {
  V sum{};
  for_vectors(
      n,
      [&](int at) __attribute__((always_inline)) {
        const V value = exp_of(load_any(x + at) - minus);
        store_any(x + at, value);
        sum += value;
      },
      [&](int at, int count) __attribute__((always_inline)) {
        const V value = exp_of(load_some(x + at, count) - minus);
        store_some(x + at, value, count);
        sum += first_of(value, count, V{});
      });
  return sum_of(sum);
}

// x[at] = f(x[at])
template <class F>
INLINE void each_value(int n, const F& f) {
  for_vectors(
      n,
      [&](int at) __attribute__((always_inline)) {
        f(
            [&](const float* p) __attribute__((always_inline)) { return load_any(p + at); },
            [&](float* p, V value) __attribute__((always_inline)) { store_any(p + at, value); });
      },
      [&](int at, int count) __attribute__((always_inline)) {
        f(
            [&](const float* p) __attribute__((always_inline)) { return load_some(p + at, count); },
            [&](float* p, V value) __attribute__((always_inline)) { store_some(p + at, value, count); });
      });
}
#define EACH [&](const auto& load, const auto& store) __attribute__((always_inline))

static void scale(int n, float* x, float factor) {
  each_value(
      n, EACH { store(x, load(x) * factor); });
}

static float dot(int n, const float* a, const float* b) {
  V sum{};
  each_value(
      n, [&](const auto& load, const auto&) __attribute__((always_inline)) { sum += load(a) * load(b); });
  return sum_of(sum);
}

static void add(int n, float* x, const float* more) {
  each_value(
      n, EACH { store(x, load(x) + load(more)); });
}

static void scale_rows(int rows, int n, float* x, std::ptrdiff_t x_row, const float* factors) {
  for (int i = 0; i < rows; ++i) scale(n, x + i * x_row, factors[i]);
}

static void dot_rows(int rows, int n, const float* a, std::ptrdiff_t a_row, const float* b,
                     std::ptrdiff_t b_row, float* results) {
  for (int i = 0; i < rows; ++i) results[i] = dot(n, a + i * a_row, b + i * b_row);
}

INLINE Word mixed(Word x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bU;
  x = (x ^ (x >> 13)) * 0xc2b2ae35U;
  return x ^ (x >> 16);
}

static void drop(int n, const float* x, const Drop& it, float* y) {
  Word index;
  for (int i = 0; i < kWidth; ++i) index[i] = it.first + static_cast<std::uint32_t>(i);
  each_value(
      n, [&](const auto& load, const auto& store) __attribute__((always_inline)) {
        const Word bits = mixed(mixed(index ^ it.key[0]) ^ it.key[1]);
        const V value = load(x) * it.factor;
        store(y, bits >= it.dropped ? value : V{});
        index += kWidth;
      });
}

#include "kernels/cpu/sequences/weights_inl.h"

// ---- single values ----

constexpr float kGelu = 0.79788456F, kGeluCube = 0.044715F;  // sqrt(2/pi)

// 1/2 + x p(x^2) / q(x^2), where x counts as -most or most beyond them. Coefficients begin with the highest.
template <int kP, int kQ>
INLINE V half_and_ratio(V x, float most, const float (&p)[kP], const float (&q)[kQ]) {
  const V low = everywhere(-most), high = everywhere(most);
  const V inside = x < low ? low : x > high ? high : x;
  const V square = inside * inside;
  V above = everywhere(p[0]), below = everywhere(q[0]);
#pragma GCC unroll 8
  for (int i = 1; i < kP; ++i) above = above * square + p[i];
#pragma GCC unroll 8
  for (int i = 1; i < kQ; ++i) below = below * square + q[i];
  return inside * above / below + 0.5F;
}

// The normal distribution function, fitted to 1.3e-8 of its distance from 1/2 where |x| <= 5.4; beyond that
// it is 0 or 1 to 4e-8.
INLINE V normal_of(V x) {
  constexpr float p[] = {2.3591094e-8F, 6.3237202e-6F, 1.6069483e-4F,
                         4.6289629e-3F, 3.3029355e-2F, 3.9894226e-1F};
  constexpr float q[] = {1.2198255e-6F, 7.1172855e-5F, 1.8386538e-3F, 2.8180087e-2F, 2.4945875e-1F, 1.0F};
  return half_and_ratio(x, 5.4F, p, q);
}

INLINE V gelu(V x) { return x * normal_of(x); }
// The distribution function plus x times the density, fitted to 4e-9 where |x| <= 6; beyond that it is 0 or 1
// to 4e-8.
INLINE V gelu_slope(V x) {
  constexpr float p[] = {1.7046321e-8F, 9.2252586e-7F,  3.4091903e-5F, 2.0272982e-4F,
                         1.3857343e-2F, -2.2371334e-2F, 7.9788453e-1F};
  constexpr float q[] = {1.3147680e-9F, 3.3897746e-7F, 1.0307714e-5F, 2.4532378e-4F,
                         3.9715041e-3F, 4.4133563e-2F, 3.0529465e-1F, 1.0F};
  return half_and_ratio(x, 6.0F, p, q);
}

// (1 + tanh(kGelu (x + kGeluCube x^3))) / 2 is the sigmoid of twice the argument.
INLINE V gelu_gate(V x) { return sigmoid_of(2 * kGelu * (x + kGeluCube * x * x * x)); }
INLINE V tanh_gelu(V x) { return x * gelu_gate(x); }
INLINE V tanh_gelu_slope(V x) {
  const V gate = gelu_gate(x), inner = 2 * kGelu * (1 + 3 * kGeluCube * x * x);
  return gate + x * gate * (1 - gate) * inner;
}

// f(at, count) for the pieces of n floats, whose number may exceed an int.
template <class F>
INLINE void for_pieces(std::size_t n, const F& f) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (std::size_t at = 0; at < n; at += kPiece) f(at, static_cast<int>(n - at < kPiece ? n - at : kPiece));
}
// y[i] = kF(x[i])
template <V (*kF)(V)>
static void map_values(std::size_t n, const float* x, float* y) {
  for_pieces(n, [&](std::size_t at, int count) {
    each_value(
        count, EACH { store(y + at, kF(load(x + at))); });
  });
}
// dx[i] = dy[i] kSlope(x[i])
template <V (*kSlope)(V)>
static void map_gradients(std::size_t n, const float* x, const float* dy, float* dx) {
  for_pieces(n, [&](std::size_t at, int count) {
    each_value(
        count, EACH { store(dx + at, load(dy + at) * kSlope(load(x + at))); });
  });
}

static void swiglu(int n, const float* a, const float* b, float* y) {
  each_value(
      n, EACH {
        const V value = load(a);
        store(y, value * sigmoid_of(value) * load(b));
      });
}

static void swiglu_gradient(int n, const float* a, const float* b, const float* dy, float* da, float* db) {
  each_value(
      n, EACH {
        const V value = load(a), gate = sigmoid_of(value), d = load(dy), other = load(b);
        store(da, d * other * gate * (1 + value * (1 - gate)));
        store(db, d * value * gate);
      });
}

static constexpr Loops all() {
  return {multiplies_texts,
          product_of_tiles,
          large_product<LargeScheme>,
          transpose,
          largest,
          exponentials,
          scale,
          dot,
          add,
          drop,
          scale_rows,
          dot_rows,
          softmax,
          softmax_again,
          softmax_gradient,
          drop_weights,
          map_values<gelu>,
          map_gradients<gelu_slope>,
          map_values<tanh_gelu>,
          map_gradients<tanh_gelu_slope>,
          swiglu,
          swiglu_gradient};
}

#undef INLINE
#undef EACH

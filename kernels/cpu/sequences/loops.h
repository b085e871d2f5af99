// The inner loops of layers for sequences: small matrix products, softmax, and functions of single values.
// There is one set for each instruction set (loops_avx2.cc, loops_avx512.cc, and loops.cc for all others),
// made from the same text (loops_inl.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::kernels::cpu::sequences {

// c[i,j] = sum over k of a(i,k) b[k,j], added to c[i,j] if `adds`, for i < rows, j < columns, k < depth.
// a(i,k) is a[i a_row + k a_column]; the other rows are contiguous.
struct Product {
  int rows, columns, depth;
  const float* a;
  std::ptrdiff_t a_row, a_column;
  const float* b;
  std::ptrdiff_t b_row;
  float* c;
  std::ptrdiff_t c_row;
  bool adds;
};

// c[i,j] = sum over k of a(i,k) b(k,j) for many i, j and k: a(i,k) is a[i a_row + k a_column], where one of
// the two is 1, and b(k,j) likewise. Another thread may change b meanwhile: each value is read once.
struct LargeProduct {
  int rows, columns, depth;  // > 0
  const float* a;
  std::ptrdiff_t a_row, a_column;
  const float* b;
  std::ptrdiff_t b_row, b_column;
  float* c;
  std::ptrdiff_t c_row;
  float* room;  // of kRoom floats, for packed parts of a and b

  static constexpr std::size_t kRoom = 864 * 784;  // as much as any Scheme needs (large_product_inl.h)
};

// Values that are dropped as kernels/reference/dropout.h says.
struct Drop {
  std::uint32_t key[2];
  std::uint32_t dropped;
  std::uint32_t first;  // the index of the first value
  float factor;         // 1 / (1 - rate)
};

// The attention weights of kQueries queries for some keys, or first their scores: weights[j, i] for key j and
// query i. Query i sees the keys j < visible + i.
constexpr int kQueries = 16;
struct WeightTile {
  int keys, visible;
  float* weights;
};

struct Loops {
  // Whether the linear layers of texts use multiply_large(), instead of oneDNN.
  bool (*multiplies_texts)();
  void (*multiply)(const Product&);
  void (*multiply_large)(const LargeProduct&);
  // to[j,i] = from[i,j] factor for i < rows, j < columns.
  void (*transpose)(int rows, int columns, const float* from, std::ptrdiff_t from_row, float factor,
                    float* to, std::ptrdiff_t to_row);
  float (*largest)(int n, const float* x);  // n > 0
  // x[i] = exp(x[i] - minus); returns the sum.
  float (*exponentials)(int n, float* x, float minus);
  void (*scale)(int n, float* x, float factor);  // x *= factor
  float (*dot)(int n, const float* a, const float* b);
  void (*add)(int n, float* x, const float* more);             // x += more
  void (*drop)(int n, const float* x, const Drop&, float* y);  // y may be x
  // x[i, j] *= factors[i] for i < rows, j < n
  void (*scale_rows)(int rows, int n, float* x, std::ptrdiff_t x_row, const float* factors);
  // results[i] = sum over j of a[i, j] b[i, j] for i < rows, j < n
  void (*dot_rows)(int rows, int n, const float* a, std::ptrdiff_t a_row, const float* b,
                   std::ptrdiff_t b_row, float* results);
  // One step of an online softmax. For each query, with the scores that it sees: largest' = max(largest,
  // scores), weights = exp(scores - largest'), kept = exp(largest - largest') and sum' = kept sum + the
  // weights' sum. Weights of other keys are 0.
  void (*softmax)(const WeightTile&, float* largest, float* sum, float* kept);
  // weights = exp(scores - denominators[i]), 0 for keys that a query does not see.
  void (*softmax_again)(const WeightTile&, const float* denominators);
  // gradients[j, i] = weights[j, i] (gradients[j, i] - means[i]) factor
  void (*softmax_gradient)(const WeightTile&, const float* means, float factor, float* gradients);
  // dropped = the weights, some of them dropped, and the same gradients, unless that is null. A query's
  // indices begin `query_step` after the previous query's. `dropped` may be the weights.
  void (*drop_weights)(const WeightTile&, const Drop&, std::uint32_t query_step, float* dropped,
                       float* gradients);
  // kernels::GeluSpec, exact and with tanh, and kernels::SwigluSpec: n values, or n of each half.
  void (*gelu)(std::size_t n, const float* x, float* y);
  void (*gelu_gradient)(std::size_t n, const float* x, const float* dy, float* dx);
  void (*tanh_gelu)(std::size_t n, const float* x, float* y);
  void (*tanh_gelu_gradient)(std::size_t n, const float* x, const float* dy, float* dx);
  void (*swiglu)(int n, const float* a, const float* b, float* y);
  void (*swiglu_gradient)(int n, const float* a, const float* b, const float* dy, float* da, float* db);
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

}  // namespace starling::kernels::cpu::sequences

// The lanes of a vector V of kWidth floats. Included in the text of loops after a vector and INLINE.

typedef std::int32_t Whole __attribute__((vector_size(kWidth * 4)));
typedef float Quad __attribute__((vector_size(16), may_alias, aligned(4)));

template <Quad (*kOf)(Quad, Quad)>
INLINE Quad folded(V value) {
  const Quad* quads = reinterpret_cast<const Quad*>(&value);
  Quad result = quads[0];
#pragma GCC unroll 4
  for (int i = 1; i < kWidth / 4; ++i) result = kOf(result, quads[i]);
  return result;
}
INLINE Quad added(Quad a, Quad b) { return a + b; }
INLINE Quad larger(Quad a, Quad b) { return a > b ? a : b; }
INLINE float sum_of(V value) {
  const Quad sums = folded<added>(value);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
INLINE float largest_of(V value) {
  const Quad most = folded<larger>(value);
  const float a = most[0] > most[1] ? most[0] : most[1], b = most[2] > most[3] ? most[2] : most[3];
  return a > b ? a : b;
}

// first, first + 1, and so on.
INLINE Whole numbers_from(int first) {
  Whole numbers;
  for (int i = 0; i < kWidth; ++i) numbers[i] = first + i;
  return numbers;
}

// Its first lanes, then the lanes of `others`.
INLINE V first_of(V value, int count, V others) { return numbers_from(0) < count ? value : others; }

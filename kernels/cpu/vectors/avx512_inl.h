// A vector of AVX-512: V, kWidth and loads and stores of floats at any address, of all or the first `count`
// lanes. Included inside a namespace of a file that is compiled for this instruction set, after
// <immintrin.h>; everything is static, so that code for a wider processor is never linked into another file.
typedef float V __attribute__((vector_size(64), may_alias));
typedef float Unaligned __attribute__((vector_size(64), may_alias, aligned(4)));

constexpr int kWidth = 16;

static inline V load_any(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
static inline void store_any(float* p, V value) { *reinterpret_cast<Unaligned*>(p) = value; }
static inline __mmask16 first_bits(int count) { return static_cast<__mmask16>((1U << count) - 1); }
static inline V load_some(const float* p, int count) { return _mm512_maskz_loadu_ps(first_bits(count), p); }
static inline void store_some(float* p, V value, int count) {
  _mm512_mask_storeu_ps(p, first_bits(count), value);
}

// The same as avx512_inl.h for AVX2.
typedef float V __attribute__((vector_size(32), may_alias));
typedef float Unaligned __attribute__((vector_size(32), may_alias, aligned(4)));

constexpr int kWidth = 8;

static inline V load_any(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
static inline void store_any(float* p, V value) { *reinterpret_cast<Unaligned*>(p) = value; }
static inline __m256i first_lanes(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline V load_some(const float* p, int count) { return _mm256_maskload_ps(p, first_lanes(count)); }
static inline void store_some(float* p, V value, int count) {
  _mm256_maskstore_ps(p, first_lanes(count), value);
}

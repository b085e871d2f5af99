// The same as avx512_inl.h for any processor: four lanes. It needs no header before it.
typedef float V __attribute__((vector_size(16), may_alias));
typedef float Unaligned __attribute__((vector_size(16), may_alias, aligned(4)));

constexpr int kWidth = 4;

inline V load_any(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
inline void store_any(float* p, V value) { *reinterpret_cast<Unaligned*>(p) = value; }
inline V load_some(const float* p, int count) {
  V value{};
  for (int i = 0; i < kWidth && i < count; ++i) value[i] = p[i];
  return value;
}
inline void store_some(float* p, V value, int count) {
  for (int i = 0; i < kWidth && i < count; ++i) p[i] = value[i];
}

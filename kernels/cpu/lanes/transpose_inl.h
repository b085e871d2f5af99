// to[j][i] = from[i][j] for 8 x 8 floats; the steps are floats between rows.
static inline void transpose8(const float* from, std::ptrdiff_t from_step, float* to,
                              std::ptrdiff_t to_step) {
  __m256 pair[8], four[8];
  for (int i = 0; i < 8; i += 2) {
    const __m256 a = _mm256_loadu_ps(from + i * from_step), b = _mm256_loadu_ps(from + (i + 1) * from_step);
    pair[i] = _mm256_unpacklo_ps(a, b);
    pair[i + 1] = _mm256_unpackhi_ps(a, b);
  }
  for (int i = 0; i < 8; i += 4) {
    four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
  for (int j = 0; j < 4; ++j) {
    _mm256_storeu_ps(to + j * to_step, _mm256_permute2f128_ps(four[j], four[j + 4], 0x20));
    _mm256_storeu_ps(to + (j + 4) * to_step, _mm256_permute2f128_ps(four[j], four[j + 4], 0x31));
  }
}

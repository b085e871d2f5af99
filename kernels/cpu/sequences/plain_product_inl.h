// The Scheme of large products (large_product_inl.h) for most processors. Rows of a that are contiguous are
// read in place; others are packed in panels of kTileRows rows.
struct PlainProduct {
  static constexpr int kRows = 96, kColumns = 1536, kDepth = 384, kStep = kDepth;
  static int terms_of(int depth) { return depth; }
  static std::ptrdiff_t panel_floats(int depth) { return std::ptrdiff_t{kPanel} * depth; }

  // to[panel][k][i] = from[k][panel kWide + i] for k < depth; the last panel has zeros beyond the columns.
  template <int kWide>
  static void pack_panels(int columns, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
    // Panels that are packed together, so that a row has a few whole lines of the cache for them; and how far
    // ahead rows are fetched, which are too far apart for the processor to do it.
    constexpr int kTogether = kWide % 16 == 0 ? 4 : 8, kAhead = 6;
    const std::ptrdiff_t panel = std::ptrdiff_t{kWide} * depth;
    for (int first = 0; first < columns; first += kTogether * kWide, to += kTogether * panel) {
      const int rest = columns - first, whole = rest / kWide < kTogether ? rest / kWide : kTogether;
      for (int k = 0; k < depth; ++k) {
        const float* row = from + k * from_row + first;
        float* out = to + std::ptrdiff_t{k} * kWide;
        if (k + kAhead < depth) {
          for (int i = 0; i < whole * kWide; i += 16) __builtin_prefetch(row + kAhead * from_row + i);
        }
        for (int i = 0; i < whole; ++i)
          __builtin_memcpy(out + i * panel, row + i * kWide, kWide * sizeof(float));
        if (whole == kTogether || rest == whole * kWide) continue;
        for (int i = 0; i < kWide; ++i)
          out[whole * panel + i] = whole * kWide + i < rest ? row[whole * kWide + i] : 0.0F;
      }
    }
  }
  static void pack_columns(int columns, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
    pack_panels<kPanel>(columns, depth, from, from_row, to);
  }
  static void pack_turned(int columns, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
    for (int first = 0; first < columns; first += kPanel, to += panel_floats(depth)) {
      const int count = columns - first < kPanel ? columns - first : kPanel;
      transpose(count, depth, from + first * from_row, from_row, 1, to, kPanel);
      if (count == kPanel) continue;
      for (int k = 0; k < depth; ++k) {
        for (int i = count; i < kPanel; ++i) to[k * kPanel + i] = 0;
      }
    }
  }

  // If fewer than kTileRows rows are left, the last one is read several times. (GCC 12 allows only partial
  // specializations in a class, hence the second parameter.)
  template <bool kContiguous, bool = false>
  struct Rows {
    const float* rows[kTileRows];
    static const float* pack(int, int, const float* from, std::ptrdiff_t, float*) { return from; }
    INLINE Rows(const float* a, std::ptrdiff_t step, int, int row, int count) {
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r) rows[r] = a + (row + (r < count ? r : count - 1)) * step;
    }
    INLINE float at(int row, int k) const { return rows[row][k]; }
  };
  template <bool kNever>
  struct Rows<false, kNever> {
    const float* panel;
    static const float* pack(int rows, int depth, const float* from, std::ptrdiff_t step, float* to) {
      pack_panels<kTileRows>(rows, depth, from, step, to);
      return to;
    }
    INLINE Rows(const float* a, std::ptrdiff_t, int depth, int row, int)
        : panel(a + row * std::ptrdiff_t{depth}) {}
    INLINE float at(int row, int k) const { return panel[k * kTileRows + row]; }
  };

  template <class Rows>
  INLINE static void tile(int depth, const Rows& a, const float* b, bool adds, float* c,
                          std::ptrdiff_t c_row) {
    V sums[kTileRows][kTileVectors];
    begin_tile(sums, c, c_row);
#pragma GCC unroll 4
    for (int k = 0; k < depth; ++k, b += kPanel) {
      V more[kTileVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) more[v] = load_any(b + v * kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r) {
        const V factor = everywhere(a.at(r, k));
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) sums[r][v] += factor * more[v];
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r, c += c_row) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        float* to = c + v * kWidth;
        store_any(to, adds ? load_any(to) + sums[r][v] : sums[r][v]);
      }
    }
  }
};

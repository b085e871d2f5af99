// Large products, as part of the text of the loops (loops_inl.h). b is packed in the order in which the
// innermost loop reads it, in panels of kPanel columns, and so is a, in panels of kTileRows rows, unless its
// rows are contiguous (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
// 34(3), 2008). Every c[i,j] adds its terms in the same order, wherever it lies.

constexpr int kPanel = kTileVectors * kWidth;

// to[panel][k][i] = from[k][panel kColumns + i] for k < depth; the last panel has zeros beyond the columns.
template <int kColumns>
static void pack_panels(int columns, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
  // Panels that are packed together, so that a row has a few whole lines of the cache for them; and how far
  // ahead rows are fetched, which are too far apart for the processor to do it.
  constexpr int kGroup = kColumns % 16 == 0 ? 4 : 8, kAhead = 6;
  const std::ptrdiff_t panel = std::ptrdiff_t{kColumns} * depth;
  for (int first = 0; first < columns; first += kGroup * kColumns, to += kGroup * panel) {
    const int rest = columns - first, whole = rest / kColumns < kGroup ? rest / kColumns : kGroup;
    for (int k = 0; k < depth; ++k) {
      const float* row = from + k * from_row + first;
      float* out = to + std::ptrdiff_t{k} * kColumns;
      if (k + kAhead < depth) {
        for (int i = 0; i < whole * kColumns; i += 16) __builtin_prefetch(row + kAhead * from_row + i);
      }
      for (int i = 0; i < whole; ++i)
        __builtin_memcpy(out + i * panel, row + i * kColumns, kColumns * sizeof(float));
      if (whole == kGroup || rest == whole * kColumns) continue;
      for (int i = 0; i < kColumns; ++i)
        out[whole * panel + i] = whole * kColumns + i < rest ? row[whole * kColumns + i] : 0.0F;
    }
  }
}

// The same with from[panel kPanel + i][k].
static void pack_turned(int columns, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
  for (int first = 0; first < columns; first += kPanel, to += std::ptrdiff_t{kPanel} * depth) {
    const int count = columns - first < kPanel ? columns - first : kPanel;
    transpose(count, depth, from + first * from_row, from_row, 1, to, kPanel);
    if (count == kPanel) continue;
    for (int k = 0; k < depth; ++k) {
      for (int i = count; i < kPanel; ++i) to[k * kPanel + i] = 0;
    }
  }
}

// The rows of a that one tile reads: a packed panel, or rows in place. If fewer than kTileRows rows are left,
// the last one is read several times.
template <bool kPacked>
struct TileRows;
template <>
struct TileRows<true> {
  const float* panel;
  INLINE TileRows(const float* a, std::ptrdiff_t, int) : panel(a) {}
  INLINE float at(int row, int k) const { return panel[k * kTileRows + row]; }
};
template <>
struct TileRows<false> {
  const float* rows[kTileRows];
  INLINE TileRows(const float* a, std::ptrdiff_t a_row, int count) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) rows[r] = a + (r < count ? r : count - 1) * a_row;
  }
  INLINE float at(int row, int k) const { return rows[row][k]; }
};

// c[i,j] (+)= sum over k of a(i,k) b[k][j] for one tile.
template <class Rows>
INLINE void large_tile(int depth, const Rows& a, const float* b, bool adds, float* c, std::ptrdiff_t c_row) {
  V sums[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    __builtin_prefetch(c + r * c_row, 1);
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) sums[r][v] = V{};
  }
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

// The same for a tile of which only `rows` and `columns` belong to c.
template <class Rows>
static void large_edge(int rows, int columns, int depth, const Rows& a, const float* b, bool adds, float* c,
                       std::ptrdiff_t c_row) {
  float tile[kTileRows * kPanel];
  large_tile(depth, a, b, false, tile, kPanel);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      float& to = c[i * c_row + j];
      to = adds ? to + tile[i * kPanel + j] : tile[i * kPanel + j];
    }
  }
}

// `rows` rows of a, packed or in place, with all panels of b.
template <bool kPacked>
static void large_block(int rows, int columns, int depth, const float* a, std::ptrdiff_t a_row,
                        const float* b, bool adds, float* c, std::ptrdiff_t c_row) {
  for (int column = 0; column < columns; column += kPanel, b += std::ptrdiff_t{kPanel} * depth) {
    const int wide = columns - column < kPanel ? columns - column : kPanel;
    for (int row = 0; row < rows; row += kTileRows) {
      const int high = rows - row < kTileRows ? rows - row : kTileRows;
      const TileRows<kPacked> tile(a + row * (kPacked ? std::ptrdiff_t{depth} : a_row), a_row, high);
      float* to = c + row * c_row + column;
      if (high == kTileRows && wide == kPanel)
        large_tile(depth, tile, b, adds, to, c_row);
      else
        large_edge(high, wide, depth, tile, b, adds, to, c_row);
    }
  }
}

// Terms k to k + depth of the columns from `column`.
static void large_terms(const LargeProduct& it, int column, int columns, int k, int depth) {
  float *a = it.room, *b = a + LargeProduct::kRows * LargeProduct::kDepth;
  const float* from = it.b + k * it.b_row + column * it.b_column;
  if (it.b_column == 1)
    pack_panels<kPanel>(columns, depth, from, it.b_row, b);
  else
    pack_turned(columns, depth, from, it.b_column, b);
  for (int row = 0; row < it.rows; row += LargeProduct::kRows) {
    const int rows = it.rows - row < LargeProduct::kRows ? it.rows - row : LargeProduct::kRows;
    const float* in = it.a + row * it.a_row + k * it.a_column;
    float* c = it.c + row * it.c_row + column;
    if (it.a_column == 1) {
      large_block<false>(rows, columns, depth, in, it.a_row, b, k > 0, c, it.c_row);
    } else {
      pack_panels<kTileRows>(rows, depth, in, it.a_column, a);
      large_block<true>(rows, columns, depth, a, 0, b, k > 0, c, it.c_row);
    }
  }
}

static void large_product(const LargeProduct& it) {
  const int pieces = (it.depth + LargeProduct::kDepth - 1) / LargeProduct::kDepth;
  const int piece = (it.depth + pieces - 1) / pieces;
  for (int column = 0; column < it.columns; column += LargeProduct::kColumns) {
    const int columns =
        it.columns - column < LargeProduct::kColumns ? it.columns - column : LargeProduct::kColumns;
    for (int k = 0; k < it.depth; k += piece)
      large_terms(it, column, columns, k, it.depth - k < piece ? it.depth - k : piece);
  }
}

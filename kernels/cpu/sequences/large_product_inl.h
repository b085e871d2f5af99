// Large products, as part of the text of the loops (loops_inl.h). Parts of a and b are packed in the order in
// which the innermost loop reads them (Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", ACM TOMS 34(3), 2008). A Scheme says how, and computes a tile of c: PlainProduct or
// PairedProduct. Every c[i,j] adds its terms in the same order, wherever it lies.
//
// A Scheme has
//   kRows, kColumns, kDepth        of a part of a, and of one of b
//   kStep                          floats for a packed row or column, >= kDepth
//   terms_of(depth)                the terms that a tile computes for `depth`, padded with zeros
//   panel_floats(depth)            of a packed panel of b: kPanel columns
//   pack_columns(columns, depth, from, from_row, to)   b[k][j] = from[k from_row + j], in panels
//   pack_turned(columns, depth, from, from_row, to)    b[k][j] = from[j from_row + k], in panels
//   Rows<kContiguous>              rows of a, which are contiguous or have contiguous columns: pack() packs
//                                  many, a Rows is kTileRows of them
//   tile(depth, rows, b, adds, c, c_row)               c[i,j] (+)= sum over k of a(i,k) b[k][j]

// A tile of which only `high` rows and `wide` columns belong to c.
template <class Scheme, class Rows>
static void large_edge(int high, int wide, int depth, const Rows& a, const float* b, bool adds, float* c,
                       std::ptrdiff_t c_row) {
  float tile[kTileRows * kPanel];
  Scheme::tile(depth, a, b, false, tile, kPanel);
  for (int i = 0; i < high; ++i) {
    for (int j = 0; j < wide; ++j) {
      float& to = c[i * c_row + j];
      to = adds ? to + tile[i * kPanel + j] : tile[i * kPanel + j];
    }
  }
}

// Some rows of a with all panels of b: the part of it at c, of the given columns and depth.
template <class Scheme, bool kContiguous>
static void large_block(const LargeProduct& it, const float* a, int rows, int columns, int depth,
                        const float* b, bool adds, float* c) {
  using Rows = typename Scheme::template Rows<kContiguous>;
  const std::ptrdiff_t step = kContiguous ? it.a_row : it.a_column;
  const float* const packed = Rows::pack(rows, depth, a, step, it.room);
  for (int column = 0; column < columns; column += kPanel, b += Scheme::panel_floats(depth)) {
    const int wide = columns - column < kPanel ? columns - column : kPanel;
    for (int row = 0; row < rows; row += kTileRows) {
      const int high = rows - row < kTileRows ? rows - row : kTileRows;
      const Rows tile(packed, step, depth, row, high);
      float* to = c + row * it.c_row + column;
      if (high == kTileRows && wide == kPanel)
        Scheme::tile(depth, tile, b, adds, to, it.c_row);
      else
        large_edge<Scheme>(high, wide, depth, tile, b, adds, to, it.c_row);
    }
  }
}

// Terms k to k + depth of the columns from `column`.
template <class Scheme>
static void large_terms(const LargeProduct& it, int column, int columns, int k, int depth) {
  static_assert(std::size_t{Scheme::kRows + Scheme::kColumns} * Scheme::kStep <= LargeProduct::kRoom);
  float* b = it.room + Scheme::kRows * Scheme::kStep;
  const float* from = it.b + k * it.b_row + column * it.b_column;
  if (it.b_column == 1)
    Scheme::pack_columns(columns, depth, from, it.b_row, b);
  else
    Scheme::pack_turned(columns, depth, from, it.b_column, b);
  for (int row = 0; row < it.rows; row += Scheme::kRows) {
    const int rows = it.rows - row < Scheme::kRows ? it.rows - row : Scheme::kRows;
    const float* a = it.a + row * it.a_row + k * it.a_column;
    float* c = it.c + row * it.c_row + column;
    if (it.a_column == 1)
      large_block<Scheme, true>(it, a, rows, columns, depth, b, k > 0, c);
    else
      large_block<Scheme, false>(it, a, rows, columns, depth, b, k > 0, c);
  }
}

template <class Scheme>
static void large_product(const LargeProduct& it) {
  const int pieces = (it.depth + Scheme::kDepth - 1) / Scheme::kDepth;
  const int piece = Scheme::terms_of((it.depth + pieces - 1) / pieces);
  for (int column = 0; column < it.columns; column += Scheme::kColumns) {
    const int columns = it.columns - column < Scheme::kColumns ? it.columns - column : Scheme::kColumns;
    for (int k = 0; k < it.depth; k += piece)
      large_terms<Scheme>(it, column, columns, k, it.depth - k < piece ? it.depth - k : piece);
  }
}

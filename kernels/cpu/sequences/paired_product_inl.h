// The Scheme of large products (large_product_inl.h) for processors that add in other units than they
// multiply, such as AMD's Zen 4 and 5:
//
//   a1 b1 + a2 b2 = (a1 + b2) (a2 + b1) - a1 a2 - b1 b2
//
// (Winograd, "A new algorithm for inner product", IEEE Transactions on Computers C-17(7), 1968). The sums of
// a1 a2 and b1 b2 belong to a row of a and a column of b, and are computed once for each. Of three terms two
// are such a pair and the third is multiplied as usual: two multiplications and two additions at the same
// time, instead of three multiplications.
//
// The intermediate sums are large, and so are rounding errors, if a and b differ in size. So every row of a
// and column of b is packed times a power of two that makes its root mean square 1 to 2 (Higham, "Accuracy
// and Stability of Numerical Algorithms", 2nd edition, section 23.2.1). One whose root mean square is below
// 2^-60 counts as zeros.
struct PairedProduct {
  static constexpr int kRows = 96, kColumns = 768, kDepth = 768, kStep = kDepth + 16;
  static constexpr int kGroup = 3;  // terms
  static int terms_of(int depth) { return (depth + kGroup - 1) / kGroup * kGroup; }

  // A packed row or column has its scaled values, then the sum of its pairs and the factor that undoes the
  // scaling. A panel has kPanel of them, [value][column].
  static constexpr int kMore = 2;
  static std::ptrdiff_t panel_floats(int depth) { return kPanel * std::ptrdiff_t{terms_of(depth) + kMore}; }

  // Of kWidth rows or columns: the factor for the values, the sums of the pairs of scaled values, and the
  // factor that undoes it.
  struct Balance {
    V up, pairs, down;
  };
  // From the sums of the squares and of the pairs of unscaled values.
  INLINE static Balance balance_of(int depth, V squares, V pairs) {
    constexpr int kMost = 60, kBias = 127, kMantissa = 23;
    const V mean = squares / static_cast<float>(depth);
    const Whole exponent = ((reinterpret_cast<Whole>(mean) >> kMantissa) - kBias) >> 1;
    const Whole low = Whole{} - kMost, high = Whole{} + kMost;
    const Whole bounded = exponent < low ? low : exponent > high ? high : exponent;
    const V up = reinterpret_cast<V>((kBias - bounded) << kMantissa);
    const V down = reinterpret_cast<V>((kBias + bounded) << kMantissa);
    return {up, pairs * up * up, exponent < low ? V{} : down};
  }

  // Sums of a panel's columns.
  struct Sums {
    V squares[kTileVectors] = {}, others[kTileVectors] = {}, pairs[kTileVectors] = {};

    INLINE void add(int v, V a, V b, V c) {
      pairs[v] += a * b;
      squares[v] += a * a;
      others[v] += b * b;
      squares[v] += c * c;
    }
  };
  // Scales a panel of `terms` values of each column and appends what belongs to the columns.
  INLINE static void balance_panel(int depth, const Sums& sums, float* panel) {
    const int terms = terms_of(depth);
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v, panel += kWidth) {
      const Balance balance = balance_of(depth, sums.squares[v] + sums.others[v], sums.pairs[v]);
      float* value = panel;
      for (int k = 0; k < terms; ++k, value += kPanel) store_any(value, load_any(value) * balance.up);
      store_any(value, balance.pairs);
      store_any(value + kPanel, balance.down);
    }
  }

  // One panel, of whose columns `count` exist. Each value is read once, because other threads may be changing
  // it, and its scaled value must match the sums.
  template <bool kAll>
  static void pack_panel(int count, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
    constexpr int kAhead = 8;  // rows, which are too far apart for the processor to fetch them ahead
    Sums sums;
    float* out = to;
    for (int k = 0; k < depth; k += kGroup, from += kGroup * from_row, out += kGroup * kPanel) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        const int rest = count - v * kWidth;
        V values[kGroup];
#pragma GCC unroll 3
        for (int i = 0; i < kGroup; ++i) {
          const float* value = from + i * from_row + v * kWidth;
          __builtin_prefetch(value + kAhead * from_row);
          values[i] = k + i >= depth || (!kAll && rest <= 0) ? V{}
                      : kAll || rest >= kWidth               ? load_any(value)
                                                             : load_some(value, rest);
          store_any(out + i * kPanel + v * kWidth, values[i]);
        }
        sums.add(v, values[0], values[1], values[2]);
      }
    }
    balance_panel(depth, sums, to);
  }
  static void pack_columns(int columns, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
    for (int column = 0; column < columns; column += kPanel, to += panel_floats(depth)) {
      if (columns - column >= kPanel)
        pack_panel<true>(kPanel, depth, from + column, from_row, to);
      else
        pack_panel<false>(columns - column, depth, from + column, from_row, to);
    }
  }
  static void pack_turned(int columns, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
    const int terms = terms_of(depth);
    for (int column = 0; column < columns; column += kPanel, to += panel_floats(depth)) {
      const int count = columns - column < kPanel ? columns - column : kPanel;
      transpose(count, depth, from + column * from_row, from_row, 1, to, kPanel);
      for (int k = 0; k < terms; ++k) {
        for (int i = k < depth ? count : 0; i < kPanel; ++i) to[k * kPanel + i] = 0;
      }
      Sums sums;
      const float* value = to;
      for (int k = 0; k < terms; k += kGroup, value += kGroup * kPanel) {
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) {
          const float* it = value + v * kWidth;
          sums.add(v, load_any(it), load_any(it + kPanel), load_any(it + 2 * kPanel));
        }
      }
      balance_panel(depth, sums, to);
    }
  }

  // kStep floats apart if they are contiguous, else in panels.
  template <bool kContiguous>
  struct Rows {
    static constexpr std::ptrdiff_t kRow = kContiguous ? kStep : 1, kTerm = kContiguous ? 1 : kPanel;
    const float* values;

    static const float* pack(int rows, int depth, const float* from, std::ptrdiff_t step, float* to) {
      static_assert(kStep >= kDepth + kGroup - 1 + kMore && kRows % kPanel == 0);
      if (kContiguous)
        pack_rows(rows, depth, from, step, to);
      else
        pack_columns(rows, depth, from, step, to);
      return to;
    }
    INLINE Rows(const float* a, std::ptrdiff_t, int depth, int row, int)
        : values(kContiguous ? a + row * kRow : a + row / kPanel * panel_floats(depth) + row % kPanel) {}
  };

  // Of `count` <= kWidth contiguous rows.
  static Balance balance_rows(int count, int depth, const float* from, std::ptrdiff_t from_row) {
    V firsts[kGroup];  // 1 for the first value of each pair, in vectors one after the other
#pragma GCC unroll 3
    for (int i = 0; i < kGroup; ++i) firsts[i] = numbers_from(i * kWidth) % kGroup == 0 ? V{} + 1 : V{};
    V squares{}, pairs{};
    for (int r = 0; r < count; ++r, from += from_row) {
      V square[kGroup] = {}, pair[kGroup] = {};
      int k = 0;
      for (; k + kGroup * kWidth < depth; k += kGroup * kWidth) {
#pragma GCC unroll 3
        for (int i = 0; i < kGroup; ++i) {
          const float* x = from + k + i * kWidth;
          square[i] += load_any(x) * load_any(x);
          pair[i] += load_any(x) * firsts[i] * load_any(x + 1);
        }
      }
      for (int i = 0; k < depth; ++i, k += kWidth) {
        const int rest = depth - k;
        const V x = load_some(from + k, rest < kWidth ? rest : kWidth);
        square[0] += x * x;
        pair[0] += x * firsts[i] * load_some(from + k + 1, rest - 1 < kWidth ? rest - 1 : kWidth);
      }
      squares[r] = sum_of(square[0] + square[1] + square[2]);
      pairs[r] = sum_of(pair[0] + pair[1] + pair[2]);
    }
    return balance_of(depth, squares, pairs);
  }
  // Missing rows of the last tile are zeros. No other thread changes the values.
  static void pack_rows(int rows, int depth, const float* from, std::ptrdiff_t from_row, float* to) {
    const int terms = terms_of(depth);
    for (int row = 0; row < rows; row += kWidth) {
      const int count = rows - row < kWidth ? rows - row : kWidth;
      const Balance balance = balance_rows(count, depth, from, from_row);
      for (int r = 0; r < count; ++r, to += kStep, from += from_row) {
        int k = 0;
        for (; k + kWidth <= depth; k += kWidth) store_any(to + k, load_any(from + k) * balance.up[r]);
        for (; k < depth; ++k) to[k] = from[k] * balance.up[r];
        for (; k < terms; ++k) to[k] = 0;
        to[terms] = balance.pairs[r];
        to[terms + 1] = balance.down[r];
      }
    }
    for (int row = rows; row % kTileRows != 0; ++row, to += kStep) {
      for (int k = 0; k < terms + kMore; ++k) to[k] = 0;
    }
  }

  // A float in all lanes. As an integer, because that broadcast does not occupy the adders.
  INLINE static V spread(const float* p) {
    std::int32_t bits;
    __builtin_memcpy(&bits, p, sizeof(bits));
    return reinterpret_cast<V>(Whole{} + bits);
  }

  template <class Rows>
  INLINE static void tile(int depth, const Rows& rows, const float* b, bool adds, float* c,
                          std::ptrdiff_t c_row) {
    constexpr std::ptrdiff_t kRow = Rows::kRow, kTerm = Rows::kTerm;
    const float* a = rows.values;
    V sums[kTileRows][kTileVectors];
    begin_tile(sums, c, c_row);
    for (int k = 0; k < depth; k += kGroup, a += kGroup * kTerm, b += kGroup * kPanel) {
      V b1[kTileVectors], b2[kTileVectors], b3[kTileVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        b1[v] = load_any(b + v * kWidth);
        b2[v] = load_any(b + kPanel + v * kWidth);
        b3[v] = load_any(b + 2 * kPanel + v * kWidth);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; ++r) {
        const float* row = a + r * kRow;
        const V a1 = spread(row), a2 = spread(row + kTerm), a3 = spread(row + 2 * kTerm);
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) {
          sums[r][v] += (a1 + b2[v]) * (a2 + b1[v]);
          const int other = (v + 1) % kTileVectors;  // not the sum that has just been added to
          sums[r][other] += a3 * b3[other];
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r, c += c_row) {
      const V pairs = spread(a + r * kRow), down = spread(a + r * kRow + kTerm);
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        float* to = c + v * kWidth;
        const V sum =
            (sums[r][v] - pairs - load_any(b + v * kWidth)) * (down * load_any(b + kPanel + v * kWidth));
        store_any(to, adds ? load_any(to) + sum : sum);
      }
    }
  }
};

// The matrix tiles of a processor (AMX): registers of 16 rows of 64 bytes, and an instruction that adds the
// product of two tiles of bfloat16 to a tile of 16x16 floats. This header multiplies tiles and knows nothing
// of layers; tiles/packing.h brings values into the required order.
#pragma once

#include <cstddef>
#include <span>

#include "base/bfloat16.h"

namespace starling::kernels::cpu::tiles {

inline constexpr int kSide = 16;          // rows of a tile, and floats in one
inline constexpr int kDepth = 32;         // bfloat16 in a row
inline constexpr int kValues = 512;       // of a whole tile of bfloat16
inline constexpr int kBlock = 2 * kSide;  // up to two tiles each way are computed at a time

// Whether the processor has them and the operating system lets this process use them.
bool available();

// One product of a sum: the offsets of its operands, in values, from Operands::a and b.
struct Term {
  std::ptrdiff_t a, b;
};

// The sum over terms t and steps s < steps of A(t, s) B(t, s), where A is [rows, depth] and B [depth, 16],
// for one or two A below each other and one or two B side by side.
struct Operands {
  const Bfloat16 *a, *b;
  std::ptrdiff_t a_row;               // from one row of A to the next
  std::ptrdiff_t a_second, b_second;  // from the first to the second A, and B
  std::ptrdiff_t a_step, b_step;      // from one step to the next
  int steps;
  int a_count, b_count;  // 1 or 2
  // B in memory: depth / 2 rows of 32 values, b[k][j] being the value 2 j + k % 2 of row k / 2.
};

// While one lives, its thread computes with tiles: A of `rows` x `depth`. REQUIRES: available(), 0 < rows <=
// 16, 0 < depth <= 32 and even; one at a time in a thread, and no other user of tiles beside it.
class TileSession {
 public:
  TileSession(int rows, int depth);
  ~TileSession();
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;

  // out = that sum, or out += it: float rows of 16 b_count values, `out_row` apart, 16 rows for each A (those
  // that A does not have are left alone).
  void multiply(const Operands& operands, std::span<const Term> terms, bool add, float* out,
                std::ptrdiff_t out_row) const;
};

}  // namespace starling::kernels::cpu::tiles

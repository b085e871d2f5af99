// A grid whose rows and columns are rings: four links per peer, and a gap of order 1/n, against 1/n^2 for the
// ring. With r x c peers, both sides at least 3, and Metropolis-Hastings weights the eigenvalues are (1 + 2
// cos(2 pi i / r) + 2 cos(2 pi j / c)) / 5, as for any product of two cycles (Koloskova, Stich & Jaggi,
// "Decentralized stochastic optimization and gossip algorithms with compressed communication", ICML 2019,
// arXiv:1902.00340, compares it with the ring and the complete graph).
//
// Any number of peers has a torus. If n = r * c with 3 <= r <= c <= 4 r, the pair nearest to a square is
// used, and the grid is full. Otherwise there are c = ceil(sqrt n) columns and the last row is short; it is a
// ring, too, and each column is a ring of the rows that reach it.
#include <algorithm>

#include "topologies/family.h"

namespace starling::topologies {
namespace {

std::uint32_t columns(std::uint32_t n) {
  std::uint32_t root = 1;  // ceil(sqrt n)
  while (std::uint64_t{root} * root < n) ++root;
  for (std::uint32_t r = root; r >= 3; --r) {
    const std::uint32_t c = n / r;
    if (n % r == 0 && r <= c && c <= 4 * r) return c;
  }
  return root;
}

// The predecessor and the successor of `i` on a ring of `size`.
std::uint32_t before(std::uint32_t i, std::uint32_t size) { return i == 0 ? size - 1 : i - 1; }
std::uint32_t behind(std::uint32_t i, std::uint32_t size) { return i + 1 == size ? 0 : i + 1; }

}  // namespace

Result<Family> make_torus(Name&) {
  return Family{[](std::span<const VertexKey> vertices) {
    const auto n = static_cast<std::uint32_t>(vertices.size());
    const std::uint32_t c = columns(n);
    return Schedule(n, {}, [n, c](std::uint32_t peer, std::uint64_t) -> Links {
      const std::uint32_t row = peer / c, column = peer % c;
      const std::uint32_t width = std::min(c, n - row * c);   // of this row
      const std::uint32_t height = (n - column + c - 1) / c;  // of this column
      return {{row * c + before(column, width)},
              {row * c + behind(column, width)},
              {before(row, height) * c + column},
              {behind(row, height) * c + column}};
    });
  }};
}

}  // namespace starling::topologies

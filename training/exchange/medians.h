// How far partners usually are: of every cell the last few distances, and their median. One liar in a
// minority of the exchanges does not move it.
//
// Who refuses whatever is far off must relent, or a replica that was cut off for long would be refused, and
// refuse, for ever: each refusal doubles what is tolerated, each mix of a whole replica halves it again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace starling::training {

class Medians {
 public:
  static constexpr std::size_t kKept = 15;

  explicit Medians(std::size_t cells) : cells_(cells) {}

  void add(std::size_t cell, double distance) {
    Cell& c = cells_[cell];
    c.last[c.seen++ % kKept] = static_cast<float>(distance);
    if (cell + 1 == cells_.size()) leniency_ = std::max(1.0, leniency_ / 2);
  }
  std::uint64_t seen(std::size_t cell) const { return cells_[cell].seen; }
  // Of the last kKept; the lower middle of an even number, 0 of none.
  double median(std::size_t cell) const {
    const Cell& c = cells_[cell];
    const std::size_t n = std::min<std::size_t>(c.seen, kKept);
    if (n == 0) return 0;
    auto sorted = c.last;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((n - 1) / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(n));
    return static_cast<double>(*middle);
  }
  // The square of this replica's own norm in the cell is `square` now; returns the largest that it ever was.
  // A replica that has shrunk to next to nothing does not take every honest partner for far off.
  double largest_norm_square(std::size_t cell, double square) {
    double& largest = cells_[cell].largest_norm_square;
    return largest = std::max(largest, square);
  }
  // As Mixer::values().
  void values(std::vector<MutableBytes>& out) {
    out.push_back(std::as_writable_bytes(std::span(cells_)));
    out.push_back(std::as_writable_bytes(std::span(&leniency_, 1)));
  }
  void clear() {
    std::fill(cells_.begin(), cells_.end(), Cell{});
    leniency_ = 1;
  }

  // By what factor a distance may exceed what is usual now, beside what it always may.
  double leniency() const { return leniency_; }
  void refused() { leniency_ = std::min(2 * leniency_, 0x1p60); }

 private:
  struct Cell {
    std::array<float, kKept> last{};
    std::uint64_t seen = 0;
    double largest_norm_square = 0;
  };
  std::vector<Cell> cells_;
  double leniency_ = 1;
};

}  // namespace starling::training

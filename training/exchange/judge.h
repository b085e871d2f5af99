// Whether a chunk from outside may touch this replica. Each of its cells is compared with own values, and the
// chunk is judged as a whole before its first float is mixed. A chunk is rejected if it holds a value that is
// not acceptable, or if it is farther off than any honest partner would be: once kFarOffSeen distances of
// each of its cells are known, more than the root of the cells' sum of max(4 |own| at its largest, 16
// medians)^2, times the leniency, which such a rejection raises.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "training/exchange/mixer.h"
#include "training/exchange/values.h"

namespace starling::training {

// The rejections that several rules have, one sentence each.
MixError not_lent(std::size_t offset);
MixError own_diverged(std::size_t offset);
// For values that are not all_acceptable().
MixError unacceptable(std::size_t offset, std::span<const float> theirs);
MixError wrong_payload(const Parcel& parcel);
MixError other_chunk(const Parcel& sent, const Parcel& reply);
// For a reply's weight that the rule does not have.
MixError unknown_weight(std::size_t offset, float weight);

// How far partners usually are: the last few distances of every cell, and their median, which liars in a
// minority of the exchanges do not move. The leniency keeps a replica that was cut off for long from
// rejecting everyone, and being rejected, forever: each rejection doubles what is tolerated, each mix of a
// whole replica halves it again.
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
  // The median of the last kKept; of an even number the lower middle, of none 0.
  double median(std::size_t cell) const {
    const Cell& c = cells_[cell];
    const std::size_t n = std::min<std::size_t>(c.seen, kKept);
    if (n == 0) return 0;
    auto sorted = c.last;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((n - 1) / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(n));
    return static_cast<double>(*middle);
  }
  // `square`: the current square of this replica's own norm in the cell. Returns the largest so far, so that
  // a replica that has shrunk to almost zero does not reject every honest partner.
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

  // The factor by which a distance may exceed the usual bound.
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

class Judge {
 public:
  // `wary`: also rejects chunks that are far off.
  Judge(const CellGrid& grid, bool wary) : grid_(grid), wary_(wary), medians_(grid.count()) {}

  static constexpr std::uint64_t kFarOffSeen = 8;

  // Begins a chunk of these cells. add() takes one cell after the other: equally many values of theirs and of
  // own, all or some of the cell's. REQUIRES: own are acceptable.
  void begin(Cells cells);
  void add(std::span<const float> theirs, std::span<const float> own);
  // The verdict on what was added; `theirs` is the whole chunk.
  MixResult<Mixed> verdict(std::span<const float> theirs);

  // The three together, for dense chunks. REQUIRES: both have the cells' floats.
  MixResult<Mixed> judge(Cells cells, std::span<const float> theirs, std::span<const float> own);

  // The measure of the chunk's k-th cell.
  const Measure& measure(std::size_t k) const { return measures_[k]; }
  // The chunk has been mixed: adds its distances to the medians.
  void remember();
  // The replica was replaced.
  void clear() { medians_.clear(); }

  void values(std::vector<MutableBytes>& out) { medians_.values(out); }  // as Mixer::values()
  const Medians& medians() const { return medians_; }                    // of |theirs - own|, by cell

 private:
  bool far_off();

  CellGrid grid_;
  bool wary_;
  Medians medians_;
  Cells cells_;
  std::vector<Measure> measures_;  // of the chunk at hand, by its cells
};

}  // namespace starling::training

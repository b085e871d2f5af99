// Whether a chunk from outside may touch this replica: each of its cells is measured against own values, and
// the chunk is judged as a whole before the first float of it is mixed. Refused is what holds a value that is
// not acceptable, and what is farther off than any honest partner would be: once kFarOffSeen distances of
// each of its cells are known, more than the root of the cells' sum of max(4 |own| at its largest, 16
// medians)^2, times the leniency (medians.h), which such a refusal raises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "training/exchange/medians.h"
#include "training/exchange/mixer.h"
#include "training/exchange/values.h"

namespace starling::training {

class Judge {
 public:
  // `wary`: refuses what is far off, too.
  Judge(const CellGrid& grid, bool wary) : grid_(grid), wary_(wary), medians_(grid.count()) {}

  static constexpr std::uint64_t kFarOffSeen = 8;

  // A chunk of these cells has come; add() takes one cell after the other: as many values of theirs and of
  // own, all or some of the cell's. REQUIRES: own are acceptable.
  void begin(Cells cells);
  void add(std::span<const float> theirs, std::span<const float> own);
  // Of all that was added; `theirs` is the whole chunk.
  MixResult<Mixed> verdict(std::span<const float> theirs);

  // The three together, of chunks whose every value came. REQUIRES: as many floats of each as the cells have.
  MixResult<Mixed> judge(Cells cells, std::span<const float> theirs, std::span<const float> own);

  // Of the k-th cell that was added last.
  const Measure& measure(std::size_t k) const { return measures_[k]; }
  // The chunk has been mixed: its distances are usual ones from now on.
  void remember();
  // The replica is another one now.
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

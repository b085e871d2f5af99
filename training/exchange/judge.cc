#include "training/exchange/judge.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "training/exchange/faults.h"

namespace starling::training {

void Judge::begin(Cells cells) {
  cells_ = cells;
  measures_.clear();
}

void Judge::add(std::span<const float> theirs, std::span<const float> own) {
  measures_.push_back(training::measure(theirs, own));
}

MixResult<Mixed> Judge::verdict(std::span<const float> theirs) {
  STARLING_CHECK(measures_.size() == cells_.count);
  const std::size_t offset = grid_.offset(cells_.first);
  Mixed mixed;
  bool acceptable = true;
  for (const Measure& measure : measures_) {
    acceptable = acceptable && measure.acceptable;
    mixed.distance_square += measure.distance_square;
    mixed.norm_square += measure.norm_square;
  }
  if (!acceptable) return unacceptable(offset, theirs);
  if (wary_ && far_off()) return too_far(offset);
  return mixed;
}

MixResult<Mixed> Judge::judge(Cells cells, std::span<const float> theirs, std::span<const float> own) {
  begin(cells);
  for (std::size_t cell = cells.first; cell < cells.first + cells.count; ++cell) {
    add(grid_.part(theirs, cells, cell), grid_.part(own, cells, cell));
  }
  return verdict(theirs);
}

void Judge::remember() {
  for (std::size_t k = 0; k < cells_.count; ++k) medians_.add(cells_.first + k, measures_[k].distance());
}

bool Judge::far_off() {
  double distance = 0, bound = 0;
  bool known = true;
  for (std::size_t k = 0; k < cells_.count; ++k) {
    const std::size_t cell = cells_.first + k;
    known = known && medians_.seen(cell) >= kFarOffSeen;
    distance += measures_[k].distance_square;
    const double norm_square = medians_.largest_norm_square(cell, measures_[k].norm_square);
    const double median = medians_.median(cell);
    bound += std::max(16 * norm_square, 256 * median * median);
  }
  if (!known) return false;
  bound *= medians_.leniency() * medians_.leniency();
  if (bound == 0 || distance <= bound) return false;  // 0: nothing but zeros was ever seen
  medians_.refused();
  return true;
}

}  // namespace starling::training

#include "training/exchange/lock_step.h"

#include <algorithm>

namespace starling::training {

LockStep::LockStep(models::Arena& arena, const MixOptions& options)
    : TwoWay(arena, options), snapshot_(arena.size()) {
  adopt();
}

void LockStep::adopt() {
  TwoWay::adopt();
  target_.read(0, snapshot_);
}

void LockStep::values(std::vector<MutableBytes>& out) {
  TwoWay::values(out);
  out.push_back(std::as_writable_bytes(std::span(snapshot_)));
}

void LockStep::begin_round(std::uint64_t round) {
  round_ = round;
  target_.read(0, snapshot_);
}

bool LockStep::own_values(Cells cells, std::span<float> out) {
  std::copy_n(snapshot_.begin() + static_cast<std::ptrdiff_t>(grid_.offset(cells.first)), out.size(),
              out.begin());
  return all_acceptable(out);
}

bool LockStep::take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) {
  target_.mix(grid_.offset(cells.first), theirs, own, weight);
  return false;
}

}  // namespace starling::training

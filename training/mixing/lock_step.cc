#include "training/mixing/lock_step.h"

#include <algorithm>

namespace starling::training {

LockStepMixer::LockStepMixer(models::Arena& arena, const MixOptions& options) : TwoWay(arena, options) {
  exclusive_ = false;
  in_order_ = true;
  keep_copy();
}

void LockStepMixer::begin_round(std::uint64_t round) {
  sequence_ = round;
  target_.read(0, kept_);
}

bool LockStepMixer::own_values(Cells cells, std::span<float> out) {
  const auto part = std::span(kept_).subspan(grid_.offset(cells.first), out.size());
  std::copy(part.begin(), part.end(), out.begin());
  return all_acceptable(out);
}

}  // namespace starling::training

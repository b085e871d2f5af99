// Pairwise averaging that no partner can use to move a replica far (ClippedGossip, He, Karimireddy and Jaggi,
// 2022): of each cell's difference at most tau is taken, a fraction of the median of this replica's own
// distances of that cell. An exchange moves a replica by at most w sqrt(sum of tau^2), whatever the partner
// sends. Two sides with unequal taus do not conserve the sum.
#pragma once

#include "training/exchange/pairwise.h"

namespace starling::training {

class Clipped : public Pairwise {
 public:
  Clipped(models::Arena& arena, const MixOptions& options)
      : Pairwise(arena, options, false), clip_(options.clip) {}

  // Before so many distances of a cell are known, nothing of it is taken: one liar shall not set the scale.
  static constexpr std::uint64_t kSeenFirst = 3;
  // The most that is taken of the cell's difference now.
  double tau(std::size_t cell) const {
    const Medians& medians = judge_.medians();
    return medians.seen(cell) < kSeenFirst ? 0 : clip_ * medians.median(cell);
  }

 private:
  bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) override;

  double clip_;
};

}  // namespace starling::training

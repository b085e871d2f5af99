// Pairwise averaging by differences (AD-PSGD, Lian et al., ICML 2018), made safe for exchanges that overlap.
//
// A peer that has sent its snapshot a of a chunk and awaits the reply has *lent* half of it. The free half is
// worth 2x - a, and others get that meanwhile, at half the weight. So every event swaps or merges parts of
// the sum, whatever overlaps: it conserves the sum, it never expands the distance, and no peer waits.
#pragma once

#include "training/mixing/two_way.h"

namespace starling::training {

class Pairwise : public TwoWay {
 public:
  Pairwise(models::Arena& arena, const MixOptions& options, bool bounded = true)
      : TwoWay(arena, options, bounded) {}

 protected:
  bool own_are_arenas(Cells cells) const override { return !loans_.any_in(cells); }

 private:
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;
  bool own_values(Cells cells, std::span<float> out) override;
  float weight(const Session& /*session*/, Cells cells) const override {
    return loans_.any_in(cells) ? 0.25F : 0.5F;
  }
  bool known_weight(float weight) const override { return weight == 0.25F || weight == 0.5F; }

  Floats lent_;  // scratch
};

// Pairwise averaging that no partner can use to move a replica far (ClippedGossip, He, Karimireddy and Jaggi,
// 2022): at most tau of each cell's difference is taken, a fraction of the median of this replica's own
// distances of that cell. An exchange moves a replica by at most w sqrt(sum of tau^2), whatever the partner
// sends. Two sides with unequal taus do not conserve the sum.
class Clipped : public Pairwise {
 public:
  Clipped(models::Arena& arena, const MixOptions& options)
      : Pairwise(arena, options, false), clip_(options.clip) {}

  // Nothing of a cell is taken before this many of its distances are known: one liar must not set the scale.
  static constexpr std::uint64_t kSeenFirst = 3;
  // Beyond this many medians, the part that is taken falls with the square of the distance.
  static constexpr double kFar = 4;
  // The most that is taken of the cell's difference now.
  double tau(std::size_t cell) const {
    const Medians& medians = judge_.medians();
    return medians.seen(cell) < kSeenFirst ? 0 : clip_ * medians.median(cell);
  }

 private:
  // The part, in [0, 1], that is taken of a cell's difference with this length.
  double part_to_take(std::size_t cell, double distance) const;
  bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) override;

  double clip_;
};

}  // namespace starling::training

// Pairwise averaging by differences (AD-PSGD, Lian et al., ICML 2018), made safe for exchanges that overlap.
//
// A peer that has sent its snapshot a of a chunk and awaits the reply has *lent* half of it; the free half is
// worth 2x - a, and that is what others get meanwhile, at half the weight. So every event swaps or merges
// parts of the sum, whatever overlaps with whatever: it conserves, it never expands, and nobody waits.
#pragma once

#include "training/exchange/floats.h"
#include "training/exchange/two_way.h"

namespace starling::training {

class Pairwise : public TwoWay {
 public:
  Pairwise(models::Arena& arena, const MixOptions& options, bool bounded = true)
      : TwoWay(arena, options, bounded) {}

 protected:
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  bool own_values(Cells cells, std::span<float> out) override;
  bool own_are_arenas(Cells cells) const override { return !any_lent(cells); }
  float weight(const Session& session, Cells cells) const override;
  bool known_weight(float weight) const override { return weight == 0.25F || weight == 0.5F; }
  bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) override;

 private:
  bool any_lent(Cells cells) const;

  Floats lent_;  // scratch
};

}  // namespace starling::training

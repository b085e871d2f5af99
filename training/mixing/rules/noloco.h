// NoLoCo (2025): DiLoCo's outer step (Douillard et al., 2023) by pairs of peers instead of all. phi are a
// peer's outer parameters, x_i and x_j the replicas of a pair:
//
//   m <- mu m + eta (mean(x_i, x_j) - phi_i),   phi_i <- phi_i + m,   x_i <- phi_i.
//
// The published step is mu m + eta mean(x - phi) + eta (mean phi - phi_i). Both terms that need the partner
// have the factor eta, so their phi cancel: only x travels, the bytes of a pairwise exchange. And x_i is
// known to its own peer up to the moment of the step, so only (x_j - x_i) is taken from what travelled.
// Hence an exchange is one of the pairwise rule, overlaps included, and each side makes its outer step of a
// chunk when it mixes the chunk. Workers go on meanwhile: what they add while the step is computed stays.
//
// Payloads round the difference of the replicas and never x or phi. With int8 both sides encode for a
// receiver that is near (near.h): the step follows the differences of the latest exchanges, not the values.
//
// With fragments (Streaming DiLoCo: Douillard et al., 2025) an exchange is of one part of the arena.
#pragma once

#include <vector>

#include "training/mixing/rules/pairwise.h"

namespace starling::training {

class Noloco : public Pairwise {
 public:
  Noloco(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  void settle() override { rate_ = 1, momentum_ = 0; }
  void values(std::vector<MutableBytes>& out) override;

 private:
  void encode_values(Cells cells, std::span<const float> values, std::uint64_t seed,
                     MutableBytes out) const override;
  void decode_values(Bytes in, Cells sent, Cells cells, std::span<float> out) const override;
  bool own_are_arenas(Cells cells) const override {
    return payload_ != Payload::int8 && Pairwise::own_are_arenas(cells);
  }
  float reach(Cells cells, std::span<const float> values) const;
  bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) override;

  static constexpr float kUnmet = -1;
  // How much farther apart than lately partners may be.
  static constexpr float kMargin = 4;

  float rate_, momentum_;
  Floats phi_, velocity_;
  Floats apart_;                // the largest |theirs - own| lately, by cell; kUnmet: none
  Floats change_;               // scratch
  mutable Floats near_values_;  // scratch
};

}  // namespace starling::training

// NoLoCo (2025): DiLoCo's outer step (Douillard et al., 2023) with the partners of a round instead of
// everybody.
//
// Of peer i, theta is the replica as it was when a round began, phi the outer parameters, S the peer itself
// and those it has exchanged with since:
//
//   m   <- mu m + eta mean_S(theta - phi) + eta (mean_S phi - phi_i)  =  mu m + eta (mean_S theta - phi_i)
//   phi <- phi + m
//
// Both terms that need partners have the factor eta, so phi drops out of what has to be known of them: only
// theta travels, the bytes of a pairwise exchange. The step of one round is made when the next begins, with
// what has come by then; until then the workers train on, and as theta goes to phi in difference form (x +=
// phi - theta) they lose nothing.
#pragma once

#include <vector>

#include "training/exchange/floats.h"
#include "training/exchange/two_way.h"

namespace starling::training {

class Noloco : public TwoWay {
 public:
  Noloco(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  void begin_round(std::uint64_t round) override;
  void values(std::vector<MutableBytes>& out) override;

 private:
  bool own_values(Cells cells, std::span<float> out) override;
  float weight(const Session& /*session*/, Cells /*cells*/) const override { return kWeight; }
  bool known_weight(float weight) const override { return weight == kWeight; }
  std::uint64_t sequence() const override { return round_; }
  bool exclusive() const override { return false; }  // theta may go to many
  // Collects (theirs - own) for the next outer step.
  bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) override;
  std::span<float> part(Floats& values, std::size_t cell) const;

  static constexpr float kWeight = 0.5F;  // of a pair, each side counts a half

  float rate_, momentum_;
  std::uint64_t round_ = 0;
  Floats theta_, phi_, velocity_;
  Floats received_;                      // sums of (theirs - own)
  std::vector<std::uint32_t> partners_;  // how many are in them, by cell
  Floats change_;                        // scratch
};

}  // namespace starling::training

// Rules in which partners get the replica as it was when the round began: D-PSGD and NoLoCo.
#pragma once

#include <vector>

#include "training/exchange/two_way.h"

namespace starling::training {

// kept_ is the arena's snapshot of when the round began; it may go to several partners at once.
class RoundRule : public TwoWay {
 public:
  void begin_round(std::uint64_t round) override;

 protected:
  RoundRule(models::Arena& arena, const MixOptions& options);

 private:
  bool own_values(Cells cells, std::span<float> out) override;
};

// D-PSGD (Lian et al., NIPS 2017): in every round x_i += sum over the neighbors j of W_ij (s_j - s_i), where
// s are the snapshots. The core decides W: it comes as Session::weight. A baseline with a local barrier.
class LockStep : public RoundRule {
 public:
  LockStep(models::Arena& arena, const MixOptions& options) : RoundRule(arena, options) { in_order_ = true; }

 private:
  float weight(const Session& session, Cells /*cells*/) const override { return session.weight; }
  // Any entry of a doubly stochastic W: families with a matrix of their own have entries above 1/2.
  bool known_weight(float weight) const override { return weight > 0 && weight <= 1; }
};

// NoLoCo (2025): DiLoCo's outer step (Douillard et al., 2023) with the partners of a round instead of all
// peers.
//
// For peer i, theta is the snapshot, phi the outer parameters, S the peer itself and those it has exchanged
// with since the round began:
//
//   m   <- mu m + eta mean_S(theta - phi) + eta (mean_S phi - phi_i)  =  mu m + eta (mean_S theta - phi_i)
//   phi <- phi + m
//
// Both terms that need partners have the factor eta, so their phi cancel: only theta travels, the bytes of a
// pairwise exchange. The step of one round is made when the next begins, with what has come by then. Until
// then the workers train on, and because theta goes to phi in difference form (x += phi - theta) they lose
// nothing.
//
// Only (theirs - own) is used of what travels, so payloads round a difference and never theta or phi. With
// int8 both sides encode for a receiver that is near (near.h): the step follows the differences of the latest
// rounds, not the values.
//
// With fragments (Streaming DiLoCo: Douillard et al., 2025) round r concerns only the r-th part of the arena,
// modulo their number: its snapshot, its outer step and, by the core's terms, its exchange.
class Noloco : public RoundRule {
 public:
  Noloco(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  void begin_round(std::uint64_t round) override;
  void settle() override { rate_ = 1, momentum_ = 0; }
  void values(std::vector<MutableBytes>& out) override;

 private:
  void encode_values(Cells cells, std::span<const float> values, std::uint64_t seed,
                     MutableBytes out) const override;
  void decode_values(Cells cells, Bytes in, std::span<float> out) const override;
  float reach(Cells cells) const;
  void outer_step(std::size_t cell);
  float weight(const Session& /*session*/, Cells /*cells*/) const override { return kWeight; }
  bool known_weight(float weight) const override { return weight == kWeight; }
  // Collects (theirs - own) for the next outer step.
  bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) override;

  static constexpr float kWeight = 0.5F;  // each side of a pair counts a half

  static constexpr float kUnmet = -1;
  // How much farther apart than in the latest round partners may be.
  static constexpr float kMargin = 4;

  float rate_, momentum_;
  std::uint32_t fragments_;
  Floats phi_, velocity_;
  Floats received_;                      // sums of (theirs - own)
  std::vector<std::uint32_t> partners_;  // how many are in them, by cell
  Floats apart_;                         // the largest |theirs - own| lately, by cell; kUnmet: none
  Floats change_;                        // scratch
};

}  // namespace starling::training

// D-PSGD (Lian et al., NIPS 2017): in every round x_i += sum over the neighbors j of W_ij (s_j - s_i), s
// being the replicas as they were when the round began. W is the core's affair: it comes as Session::weight.
// A baseline with a local barrier.
#pragma once

#include <vector>

#include "training/exchange/floats.h"
#include "training/exchange/two_way.h"

namespace starling::training {

class LockStep : public TwoWay {
 public:
  LockStep(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  void begin_round(std::uint64_t round) override;
  void values(std::vector<MutableBytes>& out) override;

 private:
  bool own_values(Cells cells, std::span<float> out) override;
  float weight(const Session& session, Cells /*cells*/) const override { return session.weight; }
  // Any entry of a doubly stochastic W: families with a matrix of their own have such beyond 1/2.
  bool known_weight(float weight) const override { return weight > 0 && weight <= 1; }
  std::uint64_t sequence() const override { return round_; }
  bool fits(std::uint64_t sequence) const override { return sequence == round_; }
  bool exclusive() const override { return false; }  // a snapshot may go to many
  bool take(Cells cells, std::span<const float> theirs, std::span<const float> own, float weight) override;

  std::uint64_t round_ = 0;
  Floats snapshot_;  // of the arena, when the round began
};

}  // namespace starling::training

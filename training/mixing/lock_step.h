// D-PSGD (Lian et al., NIPS 2017): in every round x_i += sum over the neighbors j of W_ij (s_j - s_i), where
// s are the replicas as they were when the round began. The core decides W: it comes as Session::weight. A
// baseline with a local barrier.
#pragma once

#include "training/mixing/two_way.h"

namespace starling::training {

// kept_ is the snapshot of when the round began; it may go to several partners at once.
class LockStepMixer : public TwoWay {
 public:
  LockStepMixer(models::Arena& arena, const MixOptions& options);
  void begin_round(std::uint64_t round) override;

 private:
  bool own_values(Cells cells, std::span<float> out) override;
  float weight(const Session& session, Cells /*cells*/) const override { return session.weight; }
  // Any entry of a doubly stochastic W: families with a matrix of their own have entries above 1/2.
  bool known_weight(float weight) const override { return weight > 0 && weight <= 1; }
};

}  // namespace starling::training

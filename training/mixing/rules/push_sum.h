// Push-sum gossip of parameters (SGP, Assran et al., ICML 2019; with random partners GoSGD, Blot et al.,
// 2016): one way, with an acknowledgment as the reply. Every cell of a replica z has a weight u, initially 1.
// The sender keeps half of it and sends the other half with z_i; the receiver mixes by the weights:
//
//   z_j += u_i / (u_i + u_j) (z_i - z_j),  u_j += u_i
//
// The sums of u and of u z, over peers and chunks on their way, are conserved. A weight that is never
// acknowledged is lost, and counted; the weight of a rejected exchange returns, as if this peer had sent it
// to itself. The gradient is taken at z and not divided by u.
#pragma once

#include <vector>

#include "training/mixing/rule_mixer.h"

namespace starling::training {

class PushSum : public RuleMixer<> {
 public:
  PushSum(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  bool lending_writes() const override { return payload_ != Payload::f32; }
  void give_up(const Session& session, const Parcel& sent) override;
  void take_back(const Session& session, const Parcel& sent) override;

  double share(std::size_t cell) const { return shares_[cell]; }

  static constexpr double kSmallestShare = 1.0 / 64;  // the smallest weight that is sent
  static constexpr float kLargestShare = 1024;        // the largest that is accepted

 private:
  // The chunk's share leaves with it. The offer is Payload::none if the share would be too small.
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  // A reply's weight is the share that was taken; with 0 the share returns.
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  void lose(const Parcel& sent);
  void restore(const Loan& loan);

  std::vector<double> shares_;  // u, by cell
};

}  // namespace starling::training

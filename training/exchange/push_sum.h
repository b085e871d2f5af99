// Push-sum gossip of parameters (SGP, Assran et al., ICML 2019; with random partners GoSGD, Blot et al.,
// 2016): one way, no reply but an acknowledgment. Every cell of a replica z has a weight u, 1 at first. A
// sender keeps half of it and sends the other half along; the receiver takes z_i for as much as its weight
// says:
//
//   z_j += u_i / (u_i + u_j) (z_i - z_j),  u_j += u_i
//
// so that the sums of u and of u z, over peers and what travels, stay. What is sent and never acknowledged is
// lost, and counted; of a refused exchange it comes back, as if this peer had sent it to itself. The gradient
// is taken at z and not divided by u.
#pragma once

#include <vector>

#include "training/exchange/floats.h"
#include "training/exchange/judge.h"
#include "training/exchange/loans.h"
#include "training/exchange/mix_target.h"
#include "training/exchange/mixer.h"
#include "training/exchange/options.h"
#include "training/exchange/values.h"

namespace starling::training {

class PushSum : public Mixer {
 public:
  PushSum(models::Arena& arena, const MixOptions& options);
  void adopt() override;
  bool lending_writes() const override { return payload_ != Payload::f32; }
  void give_up(const Session& session, const Parcel& sent) override;
  void take_back(const Session& session, const Parcel& sent) override;
  void values(std::vector<MutableBytes>& out) override;

  double share(std::size_t cell) const { return shares_[cell]; }

  static constexpr double kSmallestShare = 1.0 / 64;  // of a weight that is worth sending
  static constexpr float kLargestShare = 1024;        // of one that is believed

 private:
  // The chunk's share leaves with it; the offer is Payload::none where it would be too small.
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  // A reply's weight is the share that was taken; 0, and it comes back to where it was.
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  void lose(const Parcel& sent);
  void restore(const Loan& loan);

  MixTarget target_;
  Judge judge_;
  Payload payload_;
  std::uint64_t seed_;
  std::vector<double> shares_;  // u, by cell
  Loans<> loans_;               // any number of a cell: each has its share
  Floats own_, theirs_;         // scratch
};

}  // namespace starling::training

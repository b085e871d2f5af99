// Push-sum gossip of parameters (SGP, Assran et al., ICML 2019; with random partners GoSGD, Blot et al.,
// 2016): one way, with an acknowledgment as the reply. Every cell of a replica z has a weight u, initially 1.
// The sender keeps half of it and sends the other half with z_i; the receiver mixes by the weights:
//
//   z_j += u_i / (u_i + u_j) (z_i - z_j),  u_j += u_i
//
// The sums of u and of u z, over peers and chunks on their way, are conserved. A weight that is never
// acknowledged is lost, and counted; the weight of a rejected exchange returns, as if this peer had sent it
// to itself. The gradient is taken at z and not divided by u.
//
// The weights are the partners' word. A parcel weighs at most half of what all live peers began with. Where
// links go both ways, a peer gives nothing to a partner that has taken kMostGiven more than it gave. And a
// peer that had nothing to give kStarved times, and received nothing, begins again with the weight 1: its
// weight is with a member that keeps it, or is lost, and a peer without weight would have no say any more. It
// counts then as one that joins with a copy.
#pragma once

#include <map>
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
  static constexpr double kMostGiven = 2;             // in replicas
  static constexpr int kStarved = 16;                 // chunks at one place of the arena
  static constexpr std::size_t kPartnersMax = 1024;   // remembered; the lowest id makes room

 private:
  // The chunk's share leaves with it. The offer is Payload::none if the share would be too small.
  MixResult<Parcel> do_lend(const Session& session, Cells cells, MutableBytes room) override;
  // A reply's weight is the share that was taken; with 0 the share returns.
  MixResult<Mixed> do_complete(const Session& session, const Parcel& sent, const Parcel& reply) override;
  MixResult<Parcel> do_answer(const Session& session, Cells cells, const Parcel& offer,
                              MutableBytes room) override;

  bool restart_if_starved(Cells cells);
  // What this partner has taken more than it gave, in replicas.
  double& balance_of(std::uint64_t partner) {
    if (balances_.size() >= kPartnersMax && !balances_.contains(partner)) balances_.erase(balances_.begin());
    return balances_[partner];
  }
  double replicas(float share, std::size_t floats) const {
    return static_cast<double>(share) * static_cast<double>(floats) / static_cast<double>(grid_.arena_floats);
  }
  void lose(const Parcel& sent);
  void restore(const Session& session, const Loan& loan);

  std::vector<double> shares_;                // u, by cell
  std::vector<int> starved_;                  // by cell: times that it had nothing to give, in a row
  std::map<std::uint64_t, double> balances_;  // by partner
};

}  // namespace starling::training

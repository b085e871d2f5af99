// With whom to exchange: the live members that train, sorted by name, are the vertices of the run's topology,
// so every peer with the same view sees the same graph and the graph heals when members come and go. Of one's
// neighbors one is drawn, among those an exchange may begin with: not suspect, quarantined, or avoided for a
// moment because the last exchange with it came to nothing.
//
// Asynchronous peers have no round in common. At random, each non-empty round of a topology that varies in time
// counts the same, and each link in a round: these are the independent draws that randomized gossip is
// analyzed with (topologies/analysis.h). In turns, no exchange is wasted on the partner of just before, which
// mixes faster than that (docs/TOPOLOGIES.md).
//
// Aware of machines, the draw prefers neighbors with whom an exchange is quick (as NetMax does: Zhou et al.,
// "Communication-efficient decentralized machine learning over heterogeneous networks", ICDE 2021) and those
// that have consumed many samples since the last meeting. A quarter of the draws stay as they would be without
// preference: every link is used at least a quarter as often, so no graph falls apart, and the expected mixing
// per exchange (lambda_2 of the edge clocks' Laplacian) is at least a quarter too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/random.h"
#include "gossip/events.h"
#include "gossip/membership.h"
#include "topologies/topology.h"

namespace starling::gossip {

// The vertices in their order: the live members that train, oneself included. Valid until the membership changes.
std::vector<const wire::Member*> vertices(const Membership& membership);

class PartnerChooser {
 public:
  static constexpr double kPlainShare = 0.25;  // of the draws of an aware chooser

  struct Neighbor {
    PeerId id;
    double weight;  // W_ij
  };

  PartnerChooser(topologies::Topology topology, Partners policy, Random random);

  // Another topology from now on.
  void follow(topologies::Topology topology);

  // A partner for the next exchange; nullopt where there is none now.
  std::optional<PeerId> choose(Instant now, const Membership& membership);

  // All neighbors in a lock-step round, with the weights of its mixing matrix; whether they can be met now is not
  // looked at. REQUIRES: the topology is undirected.
  std::vector<Neighbor> neighbors(std::uint64_t round, const Membership& membership);

  // After so many rounds the topology's links repeat. REQUIRES: neighbors() was called.
  std::uint64_t period() const { return schedule_->period(); }

  // An exchange with this member was completed or given up: one of one's own, which took so long, or one of the
  // member's, of which only the meeting counts.
  void met(const Membership& membership, PeerId id, std::optional<Duration> took);

 private:
  struct Acquaintance {
    double seconds = 0;         // that an exchange takes, smoothed; 0: not known
    std::uint64_t samples = 0;  // that it had consumed at the last meeting
  };

  void refresh(const Membership& membership);
  void learn_links(const topologies::Schedule& schedule);
  std::optional<PeerId> take_turn(Instant now, const Membership& membership);
  std::vector<double> preferences(const Membership& membership, const topologies::Links& links) const;

  topologies::Topology topology_;
  Partners policy_;
  Random random_;
  std::uint64_t version_ = UINT64_MAX;   // of the membership that roster_ shows
  std::vector<PeerId> roster_;           // vertices in order, this peer included
  std::uint32_t own_index_ = 0;
  std::optional<topologies::Schedule> schedule_;  // among them
  topologies::Links links_;              // of all rounds, weighted by how often each is to be drawn
  std::vector<topologies::Links> turns_;  // of a chooser in turns: whom it may take, turn by turn
  std::size_t turn_ = 0;
  std::map<PeerId, Acquaintance> acquaintances_;  // of an aware chooser
};

}  // namespace starling::gossip

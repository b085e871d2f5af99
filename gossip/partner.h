// With whom to exchange: the live members that train, sorted by name, are the vertices of the run's topology,
// so every peer with the same view sees the same graph and the graph heals when members come and go. Of one's
// neighbors one is drawn, among those an exchange may begin with: not suspect, quarantined, or avoided for a
// moment because the last exchange with it came to nothing.
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

class PartnerChooser {
 public:
  static constexpr double kPlainShare = 0.25;  // of the draws of an aware chooser

  PartnerChooser(topologies::Topology topology, Partners policy, Random random);

  // Another topology from now on.
  void follow(topologies::Topology topology);

  // A partner for the next exchange; nullopt where there is none now. Each call is a round of a topology that
  // varies in time; rounds in which this peer has no link are skipped.
  std::optional<PeerId> choose(Instant now, const Membership& membership);

  // An exchange with this member was completed or given up: one of one's own, which took so long, or one of the
  // member's, of which only the meeting counts.
  void met(const Membership& membership, PeerId id, std::optional<Duration> took);

 private:
  struct Acquaintance {
    double seconds = 0;         // that an exchange takes, smoothed; 0: not known
    std::uint64_t samples = 0;  // that it had consumed at the last meeting
  };

  void refresh(const Membership& membership);
  std::vector<double> preferences(const Membership& membership, const topologies::Links& links) const;

  topologies::Topology topology_;
  Partners policy_;
  Random random_;
  std::uint64_t version_ = UINT64_MAX;            // of the membership that roster_ shows
  std::vector<PeerId> roster_;                    // vertices in order, this peer included
  std::optional<topologies::Schedule> schedule_;  // among them
  topologies::Links static_links_;                // of a schedule that does not vary
  std::uint32_t own_index_ = 0;
  std::uint64_t round_ = 0;
  std::map<PeerId, Acquaintance> acquaintances_;  // of an aware chooser
};

}  // namespace starling::gossip

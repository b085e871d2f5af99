// With whom to exchange: the live members that train, sorted by name, are the vertices of the run's topology,
// so every peer with the same view sees the same graph and the graph heals when members come and go. Of one's
// neighbors one is drawn, among those an exchange may begin with: not suspect, quarantined, or avoided for a
// moment because the last exchange with it came to nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "gossip/membership.h"
#include "topologies/topology.h"

namespace starling::gossip {

class PartnerChooser {
 public:
  PartnerChooser(topologies::Topology topology, Random random);

  // A partner for the next exchange; nullopt where there is none now. Each call is a round of a topology that
  // varies in time; rounds in which this peer has no link are skipped.
  std::optional<PeerId> choose(Instant now, const Membership& membership);

 private:
  void refresh(const Membership& membership);

  topologies::Topology topology_;
  Random random_;
  std::uint64_t version_ = UINT64_MAX;  // of the membership that roster_ shows
  std::vector<PeerId> roster_;          // vertices in order, this peer included
  std::optional<topologies::Schedule> schedule_;  // among them
  std::uint32_t own_index_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace starling::gossip

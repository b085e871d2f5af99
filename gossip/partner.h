// With whom to exchange: the live members that train, sorted by name, are the vertices of the run's topology,
// so every peer with the same view sees the same graph and the graph heals when members come and go. Of one's
// neighbors one is drawn uniformly, among those an exchange may begin with: not suspect, quarantined, or
// avoided for a moment because the last exchange with it came to nothing.
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

  // A partner for exchange number `round`; nullopt where there is none now.
  std::optional<PeerId> choose(Instant now, const Membership& membership, std::uint64_t round);

 private:
  void refresh(const Membership& membership);

  topologies::Topology topology_;
  Random random_;
  std::uint64_t version_ = UINT64_MAX;  // of the membership that roster_ shows
  std::vector<PeerId> roster_;          // vertices in order, this peer included
  std::uint32_t own_index_ = 0;
};

}  // namespace starling::gossip

// A partner drawn uniformly from everyone at every exchange (Boyd, Ghosh, Prabhakar & Shah, "Randomized
// gossip algorithms", IEEE Transactions on Information Theory 52, 2006; GoSGD, Blot et al., arXiv:1611.09726,
// gossips so). Who may meet is the complete graph; nobody keeps n - 1 links: a link is made when it is drawn.
#pragma once

#include "topologies/peers.h"

namespace starling::topologies {

struct Uniform {
  Neighbors neighbors(std::uint32_t peer, std::uint32_t peers, std::uint64_t) const {
    return all_others(peer, peers);
  }
  std::uint64_t period(std::uint32_t) const { return 1; }
};

}  // namespace starling::topologies

// Everyone beside everyone: one exchange round of all peers averages exactly, at n - 1 links each. The upper
// end of every comparison of topologies (Xiao & Boyd, "Fast linear iterations for distributed averaging",
// Systems & Control Letters 53, 2004): spectral gap 1.
#pragma once

#include "topologies/peers.h"

namespace starling::topologies {

struct Complete {
  Neighbors neighbors(std::uint32_t peer, std::uint32_t peers, std::uint64_t) const {
    return all_others(peer, peers);
  }
  std::uint64_t period(std::uint32_t) const { return 1; }
};

}  // namespace starling::topologies

// Peer i beside i - 1 and i + 1, modulo n: two links each, and the slowest mixing of the usual graphs: with
// Metropolis-Hastings weights the spectral gap is 1 - (1/3 + 2/3 cos(2 pi / n)), which falls as 1/n^2 (Lian
// et al., "Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017, trains on it;
// arXiv:1705.09056).
#pragma once

#include "topologies/peers.h"

namespace starling::topologies {

struct Ring {
  Neighbors neighbors(std::uint32_t peer, std::uint32_t peers, std::uint64_t) const {
    return tidy({peer == 0 ? peers - 1 : peer - 1, peer + 1 == peers ? 0 : peer + 1}, peer);
  }
  std::uint64_t period(std::uint32_t) const { return 1; }
};

}  // namespace starling::topologies

// The undirected static exponential graph: peer i beside i +- 2^k modulo n, for every 2^k < n. About 2 log2 n
// links each, and a gap that falls only as 1/log n (the directed graph is in Assran et al., "Stochastic
// gradient push", ICML 2019, arXiv:1811.10792, and its gap in Ying et al., "Exponential graph is provably
// efficient for decentralized deep training", NeurIPS 2021, arXiv:2110.13363; both directions make its mixing
// matrix symmetric, which pairwise averaging needs).
#pragma once

#include "topologies/peers.h"

namespace starling::topologies {

struct Exponential {
  Neighbors neighbors(std::uint32_t peer, std::uint32_t peers, std::uint64_t) const {
    Neighbors list;
    for (std::uint64_t hop = 1; hop < peers; hop *= 2) {
      list.push_back(static_cast<std::uint32_t>((peer + hop) % peers));
      list.push_back(static_cast<std::uint32_t>((peer + peers - hop) % peers));
    }
    return tidy(std::move(list), peer);
  }
  std::uint64_t period(std::uint32_t) const { return 1; }
};

}  // namespace starling::topologies

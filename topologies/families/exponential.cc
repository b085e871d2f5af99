// The undirected static exponential graph: peer i is linked to i +- 2^k modulo n for every 2^k < n. It has
// about 2 log2 n links per peer and a gap of order 1/log n. The directed graph is from Assran et al.,
// "Stochastic gradient push", ICML 2019, arXiv:1811.10792, and its gap from Ying et al., "Exponential graph
// is provably efficient for decentralized deep training", NeurIPS 2021, arXiv:2110.13363; both directions
// make the mixing matrix symmetric, as pairwise averaging requires.
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_exponential(Name&) {
  return static_family([](std::uint32_t peer, std::uint32_t n, auto link) {
    for (std::uint64_t hop = 1; hop < n; hop *= 2) {
      link((peer + hop) % n);
      link((peer + n - hop) % n);
    }
  });
}

}  // namespace starling::topologies

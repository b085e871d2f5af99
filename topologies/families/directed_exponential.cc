// The directed static exponential graph: peer i sends to i + 2^k modulo n for every 2^k < n, ceil(log2 n)
// sends per round (Assran et al., "Stochastic gradient push for distributed deep learning", ICML 2019,
// arXiv:1811.10792). If a peer splits evenly among itself and these, the spectral gap is 2/(1 + ceil(log2
// n)) for even n and larger for odd n (Ying et al., "Exponential graph is provably efficient for
// decentralized deep training", NeurIPS 2021, arXiv:2110.13363).
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_directed_exponential(Name&) {
  return Family{[](std::span<const VertexKey> vertices) {
    const auto n = static_cast<std::uint32_t>(vertices.size());
    const Schedule::Traits traits{.directed = true};
    return Schedule(n, traits, [n](std::uint32_t peer, std::uint64_t) -> Links {
      Links links;
      for (std::uint64_t hop = 1; hop < n; hop *= 2)
        links.push_back({static_cast<std::uint32_t>((peer + hop) % n)});
      return links;
    });
  }};
}

}  // namespace starling::topologies

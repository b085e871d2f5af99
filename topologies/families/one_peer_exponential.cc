// The one-peer exponential graph: in round r peer i sends only to i + 2^(r mod t) modulo n, t = ceil(log2 n),
// so each peer sends once and receives once per round (Assran et al., "Stochastic gradient push for
// distributed deep learning", ICML 2019, arXiv:1811.10792). If n is a power of two, all peers have the exact
// average after t rounds of x <- (own + received) / 2 (Ying et al., "Exponential graph is provably efficient
// for decentralized deep training", NeurIPS 2021, arXiv:2110.13363).
#include <bit>

#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_one_peer_exponential(Name&) {
  return Family{[](std::span<const VertexKey> vertices) {
    const auto n = static_cast<std::uint32_t>(vertices.size());
    const Schedule::Traits traits{.period = n <= 2 ? 1u : std::uint64_t(std::bit_width(n - 1)),
                                  .directed = true};
    return Schedule(n, traits, [n](std::uint32_t peer, std::uint64_t round) -> Links {
      return {{static_cast<std::uint32_t>((peer + (std::uint64_t{1} << round)) % n)}};
    });
  }};
}

}  // namespace starling::topologies

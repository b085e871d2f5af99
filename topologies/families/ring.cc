// Peer i is linked to i - 1 and i + 1 modulo n. The ring mixes slowest of the usual graphs: with
// Metropolis-Hastings weights the spectral gap is 1 - (1/3 + 2/3 cos(2 pi / n)), of order 1/n^2 (used by Lian
// et al., "Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017, arXiv:1705.09056).
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_ring(Name&) {
  return static_family([](std::uint32_t peer, std::uint32_t n, auto link) {
    link(peer == 0 ? n - 1 : peer - 1);
    link(peer + 1 == n ? 0 : peer + 1);
  });
}

}  // namespace starling::topologies

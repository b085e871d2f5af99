// Peer i beside i - 1 and i + 1, modulo n: two links each, and the slowest mixing of the usual graphs: with
// Metropolis-Hastings weights the spectral gap is 1 - (1/3 + 2/3 cos(2 pi / n)), which falls as 1/n^2 (Lian
// et al., "Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017, trains on it;
// arXiv:1705.09056).
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_ring(Name&) {
  return static_family([](std::uint32_t peer, std::uint32_t n, auto link) {
    link(peer == 0 ? n - 1 : peer - 1);
    link(peer + 1 == n ? 0 : peer + 1);
  });
}

}  // namespace starling::topologies

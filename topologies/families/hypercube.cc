// The binary hypercube: peer i is linked to i xor 2^k for every k. For n = 2^d it has d links per peer,
// diameter d and, with Metropolis-Hastings weights, the spectral gap 2/(d + 1) (the walk that stays with
// probability 1/(d + 1): Levin, Peres & Wilmer, "Markov chains and mixing times", chapter 12). It exists only
// for powers of two. Under churn the links with both ends below n remain. They are connected, because every
// peer keeps its links that clear a bit.
#include <bit>
#include <string>

#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_hypercube(Name& name) {
  Family family = static_family([](std::uint32_t peer, std::uint32_t n, auto link) {
    for (std::uint64_t bit = 1; bit < n; bit *= 2)
      if ((peer ^ bit) < n) link(peer ^ bit);
  });
  family.exists = [text = name.text()](std::uint32_t peers) -> Status {
    const std::uint64_t below = std::bit_floor(peers);
    if (below == peers) return Done{};
    return Error{"topology '" + text + "' does not exist for " + std::to_string(peers) +
                 " peers; expected 2^d, for example " + std::to_string(below) + " or " +
                 std::to_string(2 * below)};
  };
  return family;
}

}  // namespace starling::topologies

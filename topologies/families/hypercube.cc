// The binary hypercube: peer i beside i xor 2^k for every k. Among n = 2^d peers d links each, diameter d,
// and with Metropolis-Hastings weights the spectral gap 2/(d + 1) (the walk that stays with probability
// 1/(d + 1): Levin, Peres & Wilmer, "Markov chains and mixing times", chapter 12). It exists for powers of
// two alone; under churn the links with both ends below n remain, which still are connected: whoever lacks a
// link upwards has all those that clear a bit.
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
    return Error{"topology '" + text + "' among " + std::to_string(peers) +
                 " peers does not exist; it has 2^d peers, so " + std::to_string(below) + " and " +
                 std::to_string(2 * below) + " are possible"};
  };
  return family;
}

}  // namespace starling::topologies

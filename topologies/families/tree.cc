// The complete binary tree, numbered like a heap: peer i is linked to (i - 1) / 2, its parent, and to 2 i + 1
// and 2 i + 2, its children. It has n - 1 links and a diameter of about 2 log2 n, but a gap of order 1/n,
// because everything between its halves passes the root (Boyd, Ghosh, Prabhakar & Shah, "Randomized gossip
// algorithms", IEEE Transactions on Information Theory 52, 2006, bound averaging by the mixing time of a walk
// on the graph, here of order n: Levin, Peres & Wilmer, "Markov chains and mixing times", chapter 5).
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_tree(Name&) {
  return static_family([](std::uint32_t peer, std::uint32_t n, auto link) {
    if (peer > 0) link((peer - 1) / 2);
    for (const std::uint64_t child : {2 * std::uint64_t{peer} + 1, 2 * std::uint64_t{peer} + 2})
      if (child < n) link(child);
  });
}

}  // namespace starling::topologies

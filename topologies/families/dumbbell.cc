// Two complete graphs joined by one link: the peers below h = ceil(n / 2), those from h on, and the link
// between h - 1 and h. It models two sites with a slow line between them. Each half averages at once, but
// everything between the halves passes a single pair, so the gap is of order 1/n^2 (the usual example of a
// bottleneck: Boyd, Diaconis & Xiao, "Fastest mixing Markov chain on a graph", SIAM Review 46, 2004).
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_dumbbell(Name&) {
  return static_family([](std::uint32_t peer, std::uint32_t n, auto link) {
    const std::uint32_t half = n - n / 2;
    const bool left = peer < half;
    for (std::uint32_t other = left ? 0 : half; other < (left ? half : n); ++other) link(other);
    if (peer + 1 == half && half < n) link(half);
    if (peer == half) link(half - 1);
  });
}

}  // namespace starling::topologies

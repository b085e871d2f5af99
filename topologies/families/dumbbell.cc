// Two complete graphs joined by one link: the peers below h = ceil(n / 2) beside each other, those from h on
// beside each other, and h - 1 beside h. Two sites with a thin line between them: each averages within itself
// at once, and all that they have to tell each other passes a single pair, so the gap falls as 1/n^2 (the
// usual example of a bottleneck: Boyd, Diaconis & Xiao, "Fastest mixing Markov chain on a graph", SIAM Review
// 46, 2004).
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

// Every peer is linked to vertex 0, the hub: n - 1 links and diameter 2, like a parameter server. The hub is
// the bottleneck: with Metropolis-Hastings weights the spectral gap is 1/n for n >= 3 (Xiao & Boyd, "Fast
// linear iterations for distributed averaging", Systems & Control Letters 53, 2004). If the hub leaves, the
// next vertex takes its place.
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_star(Name&) {
  return static_family([](std::uint32_t peer, std::uint32_t n, auto link) {
    if (peer > 0)
      link(0);
    else
      for (std::uint32_t other = 1; other < n; ++other) link(other);
  });
}

}  // namespace starling::topologies

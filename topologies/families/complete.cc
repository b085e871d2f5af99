// Every peer is linked to every other: one lock-step round averages exactly, at n - 1 links per peer. The
// spectral gap is 1, the largest of all topologies (Xiao & Boyd, "Fast linear iterations for distributed
// averaging", Systems & Control Letters 53, 2004).
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_complete(Name&) {
  return static_family([](std::uint32_t, std::uint32_t n, auto link) {
    for (std::uint32_t other = 0; other < n; ++other) link(other);
  });
}

}  // namespace starling::topologies

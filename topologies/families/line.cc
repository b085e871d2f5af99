// A ring without one link: peer i is linked to i - 1 and i + 1. It is a tree with the largest diameter, n -
// 1, and mixes slowest of all connected graphs in use. Its Metropolis-Hastings matrix is symmetric and
// tridiagonal with the eigenvalues 1/3 + 2/3 cos(pi j / n), so the gap is 2/3 (1 - cos(pi / n)), of order
// 1/n^2 (Boyd, Diaconis, Sun & Xiao, "Fastest mixing Markov chain on a path", American Mathematical Monthly
// 113, 2006).
#include "topologies/family.h"

namespace starling::topologies {

Result<Family> make_line(Name&) {
  return static_family([](std::uint32_t peer, std::uint32_t n, auto link) {
    if (peer > 0) link(peer - 1);
    if (peer + 1 < n) link(peer + 1);
  });
}

}  // namespace starling::topologies

// The vocabulary of the families: peers are numbered 0 to n - 1, and a peer's neighbors are a sorted list
// without itself. A family is a plain struct with
//
//   std::vector<std::uint32_t> neighbors(std::uint32_t peer, std::uint32_t peers, std::uint64_t round) const;
//   std::uint64_t period(std::uint32_t peers) const;
//
// whose neighbors() computes this one peer's list alone: it must stay cheap at 10,000 peers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace starling::topologies {

using Neighbors = std::vector<std::uint32_t>;

// Sorts, and takes out repetitions and `peer` itself.
inline Neighbors tidy(Neighbors list, std::uint32_t peer) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  std::erase(list, peer);
  return list;
}

// All of 0 to peers - 1 but `peer`.
inline Neighbors all_others(std::uint32_t peer, std::uint32_t peers) {
  Neighbors list;
  list.reserve(peers);
  for (std::uint32_t other = 0; other < peers; ++other)
    if (other != peer) list.push_back(other);
  return list;
}

}  // namespace starling::topologies

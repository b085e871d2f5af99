// A topology for a given set of peers: the links of each peer in each round. The vertices are numbered from 0
// in the order of the roster (live members sorted by name), so peers that see the same members compute the
// same graph.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace starling::topologies {

struct Link {
  std::uint32_t peer;
  double weight = 1;
  friend bool operator==(const Link&, const Link&) = default;
};
using Links = std::vector<Link>;

// The meaning of the weights of links.
enum class Weights : std::uint8_t {
  equal,     // none: all are 1
  relative,  // a link is drawn with a probability proportional to its weight; the mean over all links is 1
  mixing,    // W_ij of the round's lock-step matrix, for families whose exactness requires it (Base-(k+1))
};

// Random families draw their links from hashes of the vertices' names, not from their numbers, so few links
// between the remaining peers change when a peer joins or leaves.
using VertexKey = std::uint64_t;
VertexKey vertex_key(std::string_view name);
// The keys of p0, p1, ..., the names that the launcher gives its peers.
std::vector<VertexKey> default_keys(std::uint32_t peers);

class Schedule {
 public:
  struct Traits {
    std::uint64_t period = 1;  // rounds after which the links repeat, >= 1; 1 for a static topology
    bool directed = false;     // a link from i to j does not imply one from j to i
    Weights weights = Weights::equal;
  };
  // The links of `peer` in `round` < period, in any order. links() removes links to `peer` itself and all but
  // the first of repeated links.
  using Draw = std::function<Links(std::uint32_t peer, std::uint64_t round)>;

  Schedule(std::uint32_t peers, Traits traits, Draw draw)
      : peers_(peers), traits_(traits), draw_(std::move(draw)) {
    STARLING_CHECK(traits.period >= 1);
  }

  std::uint32_t peers() const { return peers_; }
  std::uint64_t period() const { return traits_.period; }
  bool directed() const { return traits_.directed; }
  Weights weights() const { return traits_.weights; }

  // Sorted by peer, distinct, without `peer`. In an undirected schedule, the link back has the same weight.
  // May be empty in some rounds of a period above 1. REQUIRES: peer < peers().
  Links links(std::uint32_t peer, std::uint64_t round) const;

 private:
  std::uint32_t peers_;
  Traits traits_;
  Draw draw_;
};

}  // namespace starling::topologies

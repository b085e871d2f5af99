// A topology among particular peers: whom each links to, round by round. The vertices are numbered 0 to n - 1
// in the order of the roster (live members sorted by name), so all who see the same members see the same
// graph.
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

// What the weights of a schedule's links mean.
enum class Weights : std::uint8_t {
  equal,     // nothing: all are 1
  relative,  // how much a link counts beside others: it is drawn so much more often. The mean over all links
             // is 1
  mixing,    // W_ij of that round's lock-step matrix, for families whose exactness depends on it (Base-(k+1))
};

// Random families draw their links from hashes of the vertices' names and not from their numbers: so the
// links between those who stay barely move when somebody joins or leaves.
using VertexKey = std::uint64_t;
VertexKey vertex_key(std::string_view name);
// The keys of p0, p1, ..., as the launcher names its peers.
std::vector<VertexKey> default_keys(std::uint32_t peers);

class Schedule {
 public:
  struct Traits {
    std::uint64_t period = 1;  // after so many rounds the links repeat; 1 for a static topology. >= 1
    bool directed = false;     // a link from i to j need not have one back
    Weights weights = Weights::equal;
  };
  // Whom `peer` sends to in `round`, in any order; repetitions and `peer` itself are taken out. Of repeated
  // links the first one's weight stays. A static schedule is asked with round 0 only.
  using Draw = std::function<Links(std::uint32_t peer, std::uint64_t round)>;

  Schedule(std::uint32_t peers, Traits traits, Draw draw)
      : peers_(peers), traits_(traits), draw_(std::move(draw)) {
    STARLING_CHECK(traits.period >= 1);
  }

  std::uint32_t peers() const { return peers_; }
  std::uint64_t period() const { return traits_.period; }
  bool directed() const { return traits_.directed; }
  Weights weights() const { return traits_.weights; }

  // Sorted by peer, distinct, without `peer`. Undirected schedules are mutual, weights included. May be empty
  // in some rounds of a period above 1. REQUIRES: peer < peers().
  Links links(std::uint32_t peer, std::uint64_t round) const;

 private:
  std::uint32_t peers_;
  Traits traits_;
  Draw draw_;
};

}  // namespace starling::topologies

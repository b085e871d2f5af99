// What a peer that leaves does to the links among those who stay. `tests-topologies "[moved]" -s` prints the
// table of docs/TOPOLOGIES.md.
#include <iomanip>
#include <sstream>

#include "tests/topologies/family.h"

namespace starling::topologies {
namespace {

// The links of a period between keys rather than numbers, undirected ones once.
using KeyLinks = std::set<std::pair<VertexKey, VertexKey>>;
KeyLinks links_by_key(const Schedule& schedule, const std::vector<VertexKey>& keys) {
  KeyLinks all;
  for (const auto& [i, j] : arcs(schedule))
    if (schedule.directed() || keys[i] < keys[j]) all.emplace(keys[i], keys[j]);
  return all;
}

struct Moved {
  double appeared = 0, vanished = 0;  // links among those who stay, in the mean over who leaves
  std::size_t links = 0;              // of all n peers
};

Moved moved(const std::string& name, std::uint32_t n) {
  const Topology topology = named(name);
  const std::vector<VertexKey> keys = default_keys(n);
  const KeyLinks before = links_by_key(topology.among(keys), keys);
  Moved sum;
  sum.links = before.size();
  for (std::uint32_t leaver = 0; leaver < n; ++leaver) {
    std::vector<VertexKey> stay = keys;
    stay.erase(stay.begin() + leaver);
    const KeyLinks after = links_by_key(topology.among(stay), stay);
    for (const auto& link : after)
      if (!before.contains(link)) sum.appeared += 1.0 / n;
    for (const auto& link : before)
      if (link.first != keys[leaver] && link.second != keys[leaver] && !after.contains(link))
        sum.vanished += 1.0 / n;
  }
  return sum;
}

// At most so many links appear or vanish among 16 and among 64 peers, in the mean over who leaves: none but
// what closes the gap where a family can have it so, about k / 2 for a cycle or a lattice of degree k drawn
// by keys, all that the numbers shift where a family is made of numbers.
struct Bound {
  const char* name;
  double among16, among64;
};
constexpr Bound kBounds[] = {
    {"complete", 0, 0},
    {"uniform", 0, 0},
    {"ring", 1, 1},
    {"line", 1, 1},
    {"star", 1, 1},           // but for the hub nobody
    {"tree", 8, 32},          // half of all
    {"dumbbell", 7, 31},      // one changes sides
    {"torus", 40, 150},       // all
    {"hypercube", 24, 120},   // all
    {"exponential", 18, 90},  // those that span the gap
    {"directed-exponential", 25, 120},
    {"one-peer-exponential", 25, 120},
    {"base:k=1", 24, 120},
    {"base:k=3", 30, 400},
    {"random-regular:k=4", 3, 3},
    {"random-regular:k=5", 10, 8},
    {"random-regular:k=8", 14, 7},
    {"erdos-renyi:p=0.3", 4, 0},  // none, but where the rest is not connected and another draw is made
    {"erdos-renyi", 5, 4},        // p grows as n falls
    {"small-world:k=4,p=0.1", 4, 4},
};

}  // namespace

TEST_CASE("few links move when a peer leaves, as few as the family allows", "[moved]") {
  for (const Bound& bound : kBounds) {
    const Moved few = moved(bound.name, 16), many = moved(bound.name, 64);
    std::ostringstream row;
    row << std::fixed << std::setprecision(1) << bound.name;
    for (const Moved& m : {few, many}) row << " | " << m.links << " | +" << m.appeared << " -" << m.vanished;
    SUCCEED(row.str());
    CAPTURE(bound.name);
    CHECK(few.appeared + few.vanished <= bound.among16);
    CHECK(many.appeared + many.vanished <= bound.among64);
  }
}

TEST_CASE("a swarm stays connected whoever leaves, again and again, down to two") {
  for (const std::string& name : all_families()) {
    const Topology topology = named(name);
    CAPTURE(name);
    std::vector<VertexKey> keys = default_keys(16);
    for (std::uint32_t leaver = 0; leaver < 16; ++leaver) {
      std::vector<VertexKey> stay = keys;
      stay.erase(stay.begin() + leaver);
      REQUIRE(reaches_all(15, arcs(topology.among(stay))));
    }
    Random random(7);
    for (keys = default_keys(64); keys.size() >= 2;
         keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(random.below(keys.size()))))
      REQUIRE(reaches_all(static_cast<std::uint32_t>(keys.size()), arcs(topology.among(keys))));
  }
}

}  // namespace starling::topologies

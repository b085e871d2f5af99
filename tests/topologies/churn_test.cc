// How a departure changes the links among the remaining peers. `tests-topologies "[moved]" -s` prints the
// table of docs/TOPOLOGIES.md.
#include <iomanip>
#include <sstream>

#include "tests/topologies/family.h"

namespace starling::topologies {
namespace {

// The links of a period as pairs of keys. Undirected links are listed once.
using KeyLinks = std::set<std::pair<VertexKey, VertexKey>>;
KeyLinks links_by_key(const Schedule& schedule, const std::vector<VertexKey>& keys) {
  KeyLinks all;
  for (const auto& [i, j] : arcs(schedule))
    if (schedule.directed() || keys[i] < keys[j]) all.emplace(keys[i], keys[j]);
  return all;
}

struct Moved {
  double appeared = 0, vanished = 0;  // links among the remaining peers, mean over all departures
  std::size_t links = 0;              // among all n peers
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

// Maximum number of links that appear or vanish among 16 and among 64 peers, mean over all departures. The
// best families only close the gap. Cycles and lattices of degree k drawn by keys move about k / 2 links.
// Families defined by vertex numbers move most links, because the numbers shift.
struct Bound {
  const char* name;
  double among16, among64;
};
constexpr Bound kBounds[] = {
    {"complete", 0, 0},
    {"uniform", 0, 0},
    {"ring", 1, 1},
    {"line", 1, 1},
    {"star", 1, 1},           // only if the hub leaves
    {"tree", 8, 32},          // half of all
    {"dumbbell", 7, 31},      // one changes sides
    {"torus", 40, 150},       // all
    {"hypercube", 24, 120},   // all
    {"exponential", 18, 90},  // links across the gap
    {"directed-exponential", 25, 120},
    {"one-peer-exponential", 25, 120},
    {"base:k=1", 24, 120},
    {"base:k=3", 30, 400},
    {"random-regular:k=4", 3, 3},
    {"random-regular:k=5", 10, 8},
    {"random-regular:k=8", 14, 7},
    {"erdos-renyi:p=0.3", 4, 0},  // only if the rest is not connected, so that another draw is made
    {"erdos-renyi", 5, 4},        // p grows as n shrinks
    {"small-world:k=4,p=0.1", 4, 4},
};

}  // namespace

TEST_CASE("a departure moves no more links than the family's bound", "[moved]") {
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

TEST_CASE("a swarm stays connected after any departure, and after repeated ones down to two peers") {
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

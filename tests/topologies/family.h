// Properties of a schedule for the tests of families, computed by direct methods.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"
#include "topologies/topology.h"

namespace starling::topologies {

inline Topology named(const std::string& name) {
  auto topology = Topology::parse(name);
  if (!topology) FAIL(topology.error().message);
  return *topology;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using List = std::vector<std::uint32_t>;

inline List neighbors(const Schedule& schedule, std::uint32_t peer, std::uint64_t round = 0) {
  List list;
  for (const Link& link : schedule.links(peer, round)) list.push_back(link.peer);
  return list;
}

// Every family with its default parameters and with others.
inline std::vector<std::string> all_families() {
  std::vector<std::string> all = {"base:k=2",
                                  "base:k=3",
                                  "base:k=4",
                                  "random-regular:k=2",
                                  "random-regular:k=3",
                                  "random-regular:k=5",
                                  "random-regular:k=8",
                                  "erdos-renyi:p=0.5",
                                  "erdos-renyi:p=0.01",
                                  "small-world:k=6,p=1",
                                  "small-world:k=2,p=0.3",
                                  "small-world:k=2,p=0"};
  for (const auto& entry : names())
    if (!entry.placeholder) all.emplace_back(entry.name);
  return all;
}

// The arcs of a whole period.
using Arcs = std::set<std::pair<std::uint32_t, std::uint32_t>>;
inline Arcs arcs(const Schedule& schedule) {
  Arcs all;
  for (std::uint64_t round = 0; round < schedule.period(); ++round)
    for (std::uint32_t i = 0; i < schedule.peers(); ++i)
      for (const std::uint32_t j : neighbors(schedule, i, round)) all.emplace(i, j);
  return all;
}

// Whether vertex 0 reaches all vertices along the arcs, and all vertices reach it.
inline bool reaches_all(std::uint32_t n, const Arcs& all) {
  for (const bool backwards : {false, true}) {
    std::vector<bool> seen(n);
    seen[0] = true;
    for (bool more = true; more;) {
      more = false;
      for (auto [from, to] : all) {
        if (backwards) std::swap(from, to);
        if (!seen[from] || seen[to]) continue;
        seen[to] = more = true;
      }
    }
    if (std::count(seen.begin(), seen.end(), true) != static_cast<std::ptrdiff_t>(n)) return false;
  }
  return true;
}

}  // namespace starling::topologies

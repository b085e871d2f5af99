// What a family of topologies is: a file of its own in families/, with one function that makes it from a
// name's parameters, declared here and listed in the table of topology.cc. To add one, write the file, which
// names its reference; declare its function; add its row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "topologies/name.h"
#include "topologies/schedule.h"

namespace starling::topologies {

struct Family {
  // The links among these vertices, at least one: for any number of them, since members come and go. Where
  // the family has no graph for this number it gives the nearest connected one.
  std::function<Schedule(std::span<const VertexKey> vertices)> among;
  // Whether the family has a graph for so many peers; if not, the Error says which numbers it has one for.
  // Empty: for any number. Only who asks for a topology by hand is told; a swarm under churn goes on.
  std::function<Status(std::uint32_t peers)> exists = {};
};

// A static, undirected family without weights, from one peer's list of neighbors among n.
template <class F>
Family static_family(F neighbors) {
  return {[neighbors](std::span<const VertexKey> vertices) {
    const auto n = static_cast<std::uint32_t>(vertices.size());
    return Schedule(n, {}, [neighbors, n](std::uint32_t peer, std::uint64_t) -> Links {
      Links links;
      neighbors(peer, n, [&](std::uint64_t other) { links.push_back({static_cast<std::uint32_t>(other)}); });
      return links;
    });
  }};
}

Result<Family> make_complete(Name& name);
Result<Family> make_ring(Name& name);
Result<Family> make_line(Name& name);
Result<Family> make_star(Name& name);
Result<Family> make_torus(Name& name);
Result<Family> make_hypercube(Name& name);
Result<Family> make_exponential(Name& name);
Result<Family> make_directed_exponential(Name& name);
Result<Family> make_one_peer_exponential(Name& name);
Result<Family> make_base(Name& name);
Result<Family> make_random_regular(Name& name);
Result<Family> make_erdos_renyi(Name& name);
Result<Family> make_small_world(Name& name);
Result<Family> make_tree(Name& name);
Result<Family> make_dumbbell(Name& name);
Result<Family> make_uniform(Name& name);

}  // namespace starling::topologies

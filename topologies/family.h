// A family of topologies: a file in families/ whose function makes it from the parameters of a name. To add
// a family, write its file, which cites the source, declare its function here, and add a row in topology.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "topologies/name.h"
#include "topologies/schedule.h"

namespace starling::topologies {

struct Family {
  // The links among any number of vertices, at least one. If the family has no graph for this number, which
  // happens when members join or leave, it returns a similar connected one.
  std::function<Schedule(std::span<const VertexKey> vertices)> among;
  // Whether the family has a graph for this number of peers; the Error names numbers for which it has one.
  // If empty, it has one for any number. Checked only when a user chooses a topology, not under churn.
  std::function<Status(std::uint32_t peers)> exists = {};
  std::optional<std::uint32_t> only_peers = {};  // the only number for which it has a graph
};

// A static, undirected family without weights. `neighbors`(peer, n, link) calls link(j) for each neighbor j.
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

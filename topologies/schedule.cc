#include "topologies/schedule.h"

#include <algorithm>
#include <string>

#include "base/hash.h"

namespace starling::topologies {

VertexKey vertex_key(std::string_view name) { return hash64(name); }

std::vector<VertexKey> default_keys(std::uint32_t peers) {
  std::vector<VertexKey> keys(peers);
  for (std::uint32_t i = 0; i < peers; ++i) keys[i] = vertex_key("p" + std::to_string(i));
  return keys;
}

Links Schedule::links(std::uint32_t peer, std::uint64_t round) const {
  STARLING_CHECK(peer < peers_);
  Links links = draw_(peer, round % traits_.period);
  std::erase_if(links, [&](const Link& link) { return link.peer == peer; });
  std::stable_sort(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.peer < b.peer; });
  links.erase(
      std::unique(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.peer == b.peer; }),
      links.end());
  return links;
}

}  // namespace starling::topologies

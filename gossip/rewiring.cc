#include "gossip/rewiring.h"

#include <utility>

namespace starling::gossip {

bool Rewiring::requested(const RewireRequested& requested, Actions& out) {
  if (latest_.revision.number >= wire::kRevisionMax) return false;
  const auto topology = topologies::Topology::parse(requested.topology);
  if (const auto why = topology ? obstacle_to(run_.rule(), *topology) : std::nullopt) {
    out.push_back(Notice{Notice::What::unwired, {}, *why});  // and other peers never receive it
    return false;
  }
  return adopt({{latest_.revision.number + 1, run_.options.id}, requested.topology}, out);
}

bool Rewiring::received(const Received& from, const wire::Rewire& rewire, Actions& out) {
  run_.membership.heard(run_.now, from.from, from.address, out);
  if (rewire.revision > latest_.revision) return adopt(rewire, out);
  correct(from.address, rewire.revision, out);
  return false;
}

bool Rewiring::adopt(const wire::Rewire& rewire, Actions& out) {
  latest_ = rewire;
  run_.membership.set_topology(latest_.revision);
  run_.membership.tell_some(latest_, out);
  return apply(out);
}

bool Rewiring::apply(Actions& out) {
  if (!run_.rules || latest_.revision.number == 0) return false;
  auto topology = topologies::Topology::parse(latest_.topology);
  const auto why = topology ? obstacle_to(run_.rule(), *topology) : topology.error().message;
  if (why) {
    out.push_back(Notice{Notice::What::unwired, {}, *why});
    return false;
  }
  run_.rules->topology = std::move(*topology);
  out.push_back(Rewired{latest_.topology});
  return true;
}

std::optional<std::string> Rewiring::obstacle_to_setting(const topologies::Topology& topology) const {
  if (latest_.revision.number >= wire::kRevisionMax) {
    return "the swarm's topology is at revision " + std::to_string(wire::kRevisionMax) +
           ", the greatest there is, and cannot be set any more";
  }
  return obstacle_to(run_.rule(), topology);
}

}  // namespace starling::gossip

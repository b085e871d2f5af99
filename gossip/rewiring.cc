#include "gossip/rewiring.h"

#include <utility>

namespace starling::gossip {

namespace {

// A user's request raises the revision by one. No peer misses this many; a greater jump would use up the
// numbers, and nobody could set a topology any more.
constexpr std::uint64_t kRevisionJumpMax = 1000;

}  // namespace

bool Rewiring::requested(const RewireRequested& requested, Actions& out) {
  const auto topology = topologies::Topology::parse(requested.topology);
  if (const auto why = topology ? obstacle_to(run_.rule(), *topology) : std::nullopt) {
    out.push_back(Notice{Notice::What::unwired, {}, *why});  // and other peers never receive it
    return false;
  }
  const Identity& identity = *run_.options.identity;
  wire::Rewire rewire{{latest_.revision.number + 1, run_.id()}, requested.topology, identity.key(), {}};
  rewire.signature = identity.sign(statement_of(rewire));
  return adopt(rewire, out);
}

bool Rewiring::received(const Received& from, const wire::Rewire& rewire, Actions& out) {
  run_.membership.heard(run_.now, from.from, from.address, out);
  if (rewire.revision.number > latest_.revision.number + kRevisionJumpMax) return false;
  if (rewire.revision > latest_.revision) return is_authentic(rewire) && adopt(rewire, out);
  correct(run_.membership.view().reply_to(from.from, from.address), rewire.revision, out);
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
  return obstacle_to(run_.rule(), topology);
}

}  // namespace starling::gossip

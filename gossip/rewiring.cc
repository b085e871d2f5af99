#include "gossip/rewiring.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {

namespace {

// A user's request raises the revision by one. No peer misses this many; a greater jump would use up the
// numbers, and nobody could set a topology any more.
constexpr std::uint64_t kRevisionJumpMax = 1000;
constexpr Duration kAuthorInterval = std::chrono::seconds(1);  // between two revisions of one author
constexpr std::size_t kAuthorsMax = 8;                         // in one interval

}  // namespace

bool Rewiring::requested(const RewireRequested& requested, Actions& out) {
  const auto topology = topologies::Topology::parse(requested.topology);
  if (const auto why = topology ? obstacle_to(run_.rule(), *topology) : std::nullopt) {
    out.push_back(Notice{Notice::What::unwired, {}, *why});  // and other peers never receive it
    return false;
  }
  const Identity& identity = *run_.options.identity;
  const std::uint64_t number = (pending_ ? pending_->revision : latest_.revision).number + 1;
  pending_.reset();
  wire::Rewire rewire{{number, run_.id()}, requested.topology, identity.key(), {}};
  rewire.signature = identity.sign(statement_of(rewire));
  return adopt(rewire, out);
}

bool Rewiring::received(const Received& from, const wire::Rewire& rewire, Actions& out) {
  run_.membership.heard(run_.now, from.from, from.address, out);
  if (rewire.revision.number > latest_.revision.number + kRevisionJumpMax) return false;
  if (rewire.revision > latest_.revision) {
    const bool is_latest = !pending_ || rewire.revision > pending_->revision;
    if (!is_latest || !is_authentic(rewire)) return false;
    pending_ = rewire;
    return tick(out);
  }
  correct(run_.membership.view().reply_to(from.from, from.address), rewire.revision, out);
  return false;
}

bool Rewiring::is_authentic(const wire::Rewire& rewire) const {
  const MembershipOptions& options = run_.options.membership;
  return !std::ranges::binary_search(options.observers, rewire.revision.author) &&
         (!options.guards.signatures || gossip::is_authentic(*run_.options.identity, rewire));
}

bool Rewiring::tick(Actions& out) {
  std::erase_if(adopted_, [&](const auto& entry) { return entry.second + kAuthorInterval <= run_.now; });
  if (!pending_ || run_.now < due()) return false;
  const wire::Rewire rewire = *std::exchange(pending_, std::nullopt);
  adopted_.emplace_back(rewire.revision.author, run_.now);
  return adopt(rewire, out);
}

Instant Rewiring::due() const {
  for (const auto& [author, when] : adopted_)
    if (author == pending_->revision.author) return when + kAuthorInterval;
  return adopted_.size() < kAuthorsMax ? Instant{} : adopted_.front().second + kAuthorInterval;
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

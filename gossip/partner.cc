#include "gossip/partner.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace starling::gossip {

PartnerChooser::PartnerChooser(topologies::Topology topology, Random random)
    : topology_(std::move(topology)), random_(random) {}

void PartnerChooser::refresh(const Membership& membership) {
  if (version_ == membership.version()) return;
  version_ = membership.version();
  std::vector<const wire::Member*> vertices{&membership.self()};
  for (const auto& [id, member] : membership.others()) {
    if (Membership::is_live(member) && member.phase >= wire::Phase::training) vertices.push_back(&member);
  }
  // Shorter names first, so that p2 comes before p10.
  std::sort(vertices.begin(), vertices.end(), [](const wire::Member* a, const wire::Member* b) {
    if (a->name.size() != b->name.size()) return a->name.size() < b->name.size();
    return std::tie(a->name, a->id) < std::tie(b->name, b->id);
  });
  roster_.clear();
  for (const auto* member : vertices) {
    if (member->id == membership.self().id) own_index_ = static_cast<std::uint32_t>(roster_.size());
    roster_.push_back(member->id);
  }
}

std::optional<PeerId> PartnerChooser::choose(const Membership& membership, std::uint64_t round) {
  refresh(membership);
  if (roster_.size() < 2) return std::nullopt;
  auto neighbors = topology_.neighbors(own_index_, static_cast<std::uint32_t>(roster_.size()), round);
  // A suspect may well be dead: an exchange with it would only wait for its time-out.
  std::erase_if(neighbors, [&](std::uint32_t v) {
    return membership.find(roster_[v])->liveness != wire::Liveness::alive;
  });
  if (neighbors.empty()) return std::nullopt;
  return roster_[neighbors[random_.below(neighbors.size())]];
}

}  // namespace starling::gossip

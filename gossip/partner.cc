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
  for (const Record& record : membership.others()) {
    if (record.is_live() && record.member.phase >= wire::Phase::training) vertices.push_back(&record.member);
  }
  // Shorter names first, so that p2 comes before p10.
  std::sort(vertices.begin(), vertices.end(), [](const wire::Member* a, const wire::Member* b) {
    if (a->name.size() != b->name.size()) return a->name.size() < b->name.size();
    return std::tie(a->name, a->id) < std::tie(b->name, b->id);
  });
  roster_.clear();
  std::vector<topologies::VertexKey> keys;
  for (const auto* member : vertices) {
    if (member->id == membership.self().id) own_index_ = static_cast<std::uint32_t>(roster_.size());
    roster_.push_back(member->id);
    keys.push_back(topologies::vertex_key(member->name));
  }
  schedule_ = topology_.among(keys);
}

std::optional<PeerId> PartnerChooser::choose(Instant now, const Membership& membership) {
  refresh(membership);
  topologies::Links links;
  for (std::uint64_t skipped = 0; links.empty() && skipped < schedule_->period(); ++skipped)
    links = schedule_->links(own_index_, ++round_);
  while (!links.empty()) {
    const std::size_t drawn = random_.below(links.size());
    const PeerId id = roster_[links[drawn].peer];
    if (Membership::is_partner(now, *membership.find(id))) return id;
    links[drawn] = links.back();
    links.pop_back();
  }
  return std::nullopt;
}

}  // namespace starling::gossip

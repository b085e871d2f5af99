#include "gossip/partner.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace starling::gossip {

PartnerChooser::PartnerChooser(topologies::Topology topology, Partners policy, Random random)
    : topology_(std::move(topology)), policy_(policy), random_(random) {}

void PartnerChooser::follow(topologies::Topology topology) {
  topology_ = std::move(topology);
  version_ = UINT64_MAX;
}

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
  static_links_ = schedule_->period() == 1 ? schedule_->links(own_index_, 0) : topologies::Links();
  std::erase_if(acquaintances_, [&](const auto& entry) {
    const Record* const record = membership.find(entry.first);
    return record == nullptr || !record->is_live();
  });
}

std::optional<PeerId> PartnerChooser::choose(Instant now, const Membership& membership) {
  refresh(membership);
  topologies::Links links = static_links_;
  for (std::uint64_t skipped = 0; links.empty() && skipped < schedule_->period(); ++skipped)
    links = schedule_->links(own_index_, round_++);
  std::erase_if(links, [&](const topologies::Link& link) {
    return !Membership::is_partner(now, *membership.find(roster_[link.peer]));
  });
  if (links.empty()) return std::nullopt;
  const std::vector<double> preferences = this->preferences(membership, links);
  double sum = 0;
  for (const double p : preferences) sum += p;
  double drawn = random_.uniform() * sum;
  std::size_t k = 0;
  while (k + 1 < links.size() && drawn >= preferences[k]) drawn -= preferences[k++];
  return roster_[links[k].peer];
}

// How much each link is preferred, in any unit.
std::vector<double> PartnerChooser::preferences(const Membership& membership,
                                                const topologies::Links& links) const {
  std::vector<double> plain(links.size(), 1);
  if (schedule_->weights() == topologies::Weights::relative)
    for (std::size_t k = 0; k < links.size(); ++k) plain[k] = links[k].weight;
  if (policy_ == Partners::uniform) return plain;

  std::vector<Acquaintance> known(links.size());
  std::vector<double> news(links.size());
  double quickest = 0, most_news = 0;
  for (std::size_t k = 0; k < links.size(); ++k) {
    const PeerId id = roster_[links[k].peer];
    if (const auto found = acquaintances_.find(id); found != acquaintances_.end()) known[k] = found->second;
    const std::uint64_t samples = membership.find(id)->member.samples;
    news[k] = samples > known[k].samples ? static_cast<double>(samples - known[k].samples) : 0;
    most_news = std::max(most_news, news[k]);
    if (known[k].seconds > 0 && (quickest == 0 || known[k].seconds < quickest)) quickest = known[k].seconds;
  }
  std::vector<double> preferred(links.size());
  double plain_sum = 0, preferred_sum = 0;
  for (std::size_t k = 0; k < links.size(); ++k) {
    const double quick = known[k].seconds > 0 ? quickest / known[k].seconds : 1;
    const double fresh = most_news > 0 ? news[k] / most_news : 1;
    preferred[k] = plain[k] * quick * fresh;
    plain_sum += plain[k];
    preferred_sum += preferred[k];
  }
  for (std::size_t k = 0; k < links.size(); ++k)
    preferred[k] = kPlainShare * plain[k] / plain_sum + (1 - kPlainShare) * preferred[k] / preferred_sum;
  return preferred;
}

void PartnerChooser::met(const Membership& membership, PeerId id, std::optional<Duration> took) {
  const Record* const record = membership.find(id);
  if (policy_ != Partners::aware || record == nullptr) return;
  Acquaintance& acquaintance = acquaintances_[id];
  acquaintance.samples = record->member.samples;
  if (!took) return;
  constexpr double kNewest = 0.25;  // what the latest exchange counts in the mean
  const double seconds = std::max(to_seconds(*took), 1e-6);
  acquaintance.seconds =
      acquaintance.seconds == 0 ? seconds : (1 - kNewest) * acquaintance.seconds + kNewest * seconds;
}

}  // namespace starling::gossip

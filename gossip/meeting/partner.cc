#include "gossip/meeting/partner.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <tuple>

#include "topologies/spectra/mixing.h"

namespace starling::gossip {

namespace {

bool takes_part(const Record& record) {
  return record.is_live() && !record.observes && record.member.phase >= wire::Phase::training;
}

}  // namespace

bool is_crowded(const Membership& membership) {
  const auto is_new = [](const Record& record) { return takes_part(record) && !record.is_proven(); };
  return static_cast<std::size_t>(std::ranges::count_if(membership.others(), is_new)) > kNewcomersMax;
}

std::vector<const wire::Member*> vertices(const Membership& membership) {
  const bool crowded = is_crowded(membership);
  std::vector<const wire::Member*> vertices{&membership.self()};
  for (const Record& record : membership.others())
    if (takes_part(record) && (!crowded || record.is_proven())) vertices.push_back(&record.member);
  // Shorter names first, so that p2 comes before p10.
  std::ranges::sort(vertices, {}, [](const wire::Member* member) {
    return std::tuple(member->name.size(), std::string_view(member->name), member->id);
  });
  return vertices;
}

namespace {

bool may_begin(Instant now, const Membership& membership, PeerId id) {
  const Record& record = *membership.find(id);
  if (membership.self().phase == wire::Phase::settling && record.member.phase < wire::Phase::settling)
    return false;  // gossip/ending.h
  return record.may_exchange(now) && membership.view().can_begin_with(record.member);
}

// The relative probability with which a link of its round is drawn.
double weight_to_draw(const topologies::Schedule& schedule, const topologies::Link& link) {
  return schedule.weights() == topologies::Weights::relative ? link.weight : 1;
}

}  // namespace

void PartnerChooser::refresh(const Membership& membership) {
  if (version_ == membership.version() && !crowded_) return;
  version_ = membership.version();
  crowded_ = is_crowded(membership);
  roster_.clear();
  std::vector<topologies::VertexKey> keys;
  for (const auto* member : vertices(membership)) {
    if (member->id == membership.self().id) own_index_ = static_cast<std::uint32_t>(roster_.size());
    roster_.push_back(member->id);
    keys.push_back(topologies::vertex_key(member->name));
  }
  schedule_ = topology_.among(keys);
  shares_.clear();
  learn_links(membership);
  std::erase_if(acquaintances_, [&](const auto& entry) {
    const Record* const record = membership.find(entry.first);
    return record == nullptr || !record->is_live();
  });
}

void PartnerChooser::learn_links(const Membership& membership) {
  const topologies::Schedule& schedule = *schedule_;
  const auto cannot_meet = [&](const topologies::Link& link) {
    return !membership.view().can_meet(membership.find(roster_[link.peer])->member);
  };
  links_.clear();
  turns_.clear();
  std::map<std::uint32_t, double> often;
  for (std::uint64_t round = 0; round < schedule.period(); ++round) {
    topologies::Links links = schedule.links(own_index_, round);
    std::erase_if(links, cannot_meet);
    if (links.empty()) continue;
    double sum = 0;
    for (topologies::Link& link : links) sum += link.weight = weight_to_draw(schedule, link);
    for (const topologies::Link& link : links) often[link.peer] += link.weight / sum;
    turns_.push_back(std::move(links));
  }
  for (const auto& [peer, weight] : often) links_.push_back({peer, weight});
  if (links_.empty()) {  // it can meet none of its neighbors: its homes take their place
    const std::vector<PeerId>& homes = membership.self().homes;
    for (std::uint32_t k = 0; k < roster_.size(); ++k)
      if (std::ranges::find(homes, roster_[k]) != homes.end()) links_.push_back({k, 1});
    if (!links_.empty()) turns_ = {links_};
  }
  if (policy_ != Partners::turns) {
    turns_.clear();
  } else if (schedule.period() == 1) {  // one neighbor a turn, in random order
    turns_.clear();
    for (const topologies::Link& link : links_) turns_.push_back({link});
    random_.shuffle(std::span(turns_));
  }
}

std::optional<PeerId> PartnerChooser::choose(Instant now, const Membership& membership) {
  refresh(membership);
  if (policy_ == Partners::turns) return take_turn(now, membership);
  topologies::Links links = links_;
  std::erase_if(
      links, [&](const topologies::Link& link) { return !may_begin(now, membership, roster_[link.peer]); });
  if (links.empty()) return std::nullopt;
  const std::vector<double> preferences = this->preferences(membership, links);
  double sum = 0;
  for (const double p : preferences) sum += p;
  double drawn = random_.uniform() * sum;
  std::size_t k = 0;
  while (k + 1 < links.size() && drawn >= preferences[k]) drawn -= preferences[k++];
  return roster_[links[k].peer];
}

std::vector<PartnerChooser::Neighbor> PartnerChooser::neighbors(std::uint64_t round,
                                                                const Membership& membership) {
  refresh(membership);
  std::vector<Neighbor> neighbors;
  for (const topologies::Link& link : topologies::lock_step_links(*schedule_, own_index_, round)) {
    const PeerId id = roster_[link.peer];
    if (membership.view().can_meet(membership.find(id)->member)) neighbors.push_back({id, link.weight});
  }
  return neighbors;
}

// A random candidate of the next turn; turns without available candidates are skipped.
std::optional<PeerId> PartnerChooser::take_turn(Instant now, const Membership& membership) {
  for (std::size_t passed = 0; passed < turns_.size(); ++passed) {
    topologies::Links links = turns_[turn_++ % turns_.size()];
    while (!links.empty()) {
      const std::size_t drawn = random_.below(links.size());
      const PeerId id = roster_[links[drawn].peer];
      if (may_begin(now, membership, id)) return id;
      links[drawn] = links.back();
      links.pop_back();
    }
  }
  return std::nullopt;
}

// Relative probabilities of the links.
std::vector<double> PartnerChooser::preferences(const Membership& membership,
                                                const topologies::Links& links) const {
  std::vector<double> plain;
  for (const topologies::Link& link : links) plain.push_back(link.weight);
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
  std::vector<double> preferred(plain);
  double plain_sum = 0, preferred_sum = 0;
  for (std::size_t k = 0; k < links.size(); ++k) {
    const double quick = known[k].seconds > 0 ? quickest / known[k].seconds : 1;
    preferred[k] = plain[k] * quick * (most_news > 0 ? news[k] / most_news : 1);
    plain_sum += plain[k];
    preferred_sum += preferred[k];
  }
  for (std::size_t k = 0; k < links.size(); ++k)
    preferred[k] = kPlainShare * plain[k] / plain_sum + (1 - kPlainShare) * preferred[k] / preferred_sum;
  return preferred;
}

double PartnerChooser::share_of(PeerId id, const Membership& membership) {
  refresh(membership);
  if (const auto known = shares_.find(id); known != shares_.end()) return known->second;
  const auto vertex = std::ranges::find(roster_, id) - roster_.begin();
  double own = 0, rounds = 0;
  for (std::uint64_t round = 0; round < schedule_->period() && vertex < std::ssize(roster_); ++round) {
    double sum = 0, towards_own = 0;
    for (const topologies::Link& link : schedule_->links(static_cast<std::uint32_t>(vertex), round)) {
      const double weight = weight_to_draw(*schedule_, link);
      sum += weight;
      if (link.peer == own_index_) towards_own = weight;
    }
    if (sum == 0) continue;
    rounds += 1;
    own += towards_own / sum;
  }
  const double at_random = 1 / static_cast<double>(std::max<std::size_t>(roster_.size(), 2) - 1);
  return shares_[id] = own > 0 ? own / rounds : at_random;
}

void PartnerChooser::met(const Membership& membership, PeerId id, std::optional<Duration> took) {
  const Record* const record = membership.find(id);
  if (policy_ != Partners::aware || record == nullptr) return;
  Acquaintance& acquaintance = acquaintances_[id];
  acquaintance.samples = record->member.samples;
  if (!took) return;
  constexpr double kNewest = 0.25;  // weight of the latest exchange in the mean
  const double seconds = std::max(to_seconds(*took), 1e-6);
  acquaintance.seconds =
      acquaintance.seconds == 0 ? seconds : (1 - kNewest) * acquaintance.seconds + kNewest * seconds;
}

float own_share(Shares shares, Instant now, const wire::Member& self, const Record& partner) {
  constexpr double kLeast = 1.0 / 64;  // with a share of 0 the exchange would have no effect
  constexpr double kWorkTolerated = 2;
  constexpr double kAgeTolerated = 8;
  double share = 1;
  if (shares == Shares::work && self.samples > 0)
    share = kWorkTolerated * static_cast<double>(partner.member.samples) / static_cast<double>(self.samples);
  const Duration age = now - partner.samples_at;
  if (shares == Shares::age && partner.samples_every.count() > 0 && age.count() > 0)
    share = kAgeTolerated * to_seconds(partner.samples_every) / to_seconds(age);
  return static_cast<float>(std::clamp(share, kLeast, 1.0));
}

}  // namespace starling::gossip

#include "gossip/meeting/roster.h"

#include <algorithm>

#include "gossip/meeting/partner.h"

namespace starling::gossip {

bool Roster::refresh(const Membership& membership) {
  if (version_ == membership.version() && !crowded_) return false;
  version_ = membership.version();
  crowded_ = is_crowded(membership);
  role_ = role_of(membership.self().name, servers_);
  workers_.clear();
  training_.clear();
  contesting_.clear();
  const std::vector<const wire::Member*> members = vertices(membership);
  appoint(members);
  for (const wire::Member* member : members) {
    if (role_of(member->name, servers_).kind != Role::Kind::worker) continue;
    if (member->id == membership.self().id) own_worker_ = workers_.size();
    workers_.push_back(member->id);
    if (member->phase == wire::Phase::training) training_.push_back(member->id);
  }
  return true;
}

// Each role's holder stays, if it still lives under that name; else the first member of the name follows.
void Roster::appoint(const std::vector<const wire::Member*>& members) {
  shards_.resize(servers_.shards);
  racks_.resize(servers_.racks);
  const auto is_of = [this](const wire::Member* member, Role::Kind kind, std::size_t number) {
    const Role role = role_of(member->name, servers_);
    return role.kind == kind && role.number == number;
  };
  for (const Role::Kind kind : {Role::Kind::shard, Role::Kind::rack}) {
    auto& holders = kind == Role::Kind::shard ? shards_ : racks_;
    for (std::size_t k = 0; k < holders.size(); ++k) {
      std::vector<PeerId> named;
      for (const wire::Member* member : members)
        if (is_of(member, kind, k)) named.push_back(member->id);
      const bool stays = holders[k] && std::ranges::find(named, *holders[k]) != named.end();
      if (!stays) holders[k] = named.empty() ? std::nullopt : std::optional(named.front());
      for (const PeerId id : named)
        if (id != *holders[k]) contesting_.push_back(id);
    }
  }
}

std::optional<Roster::Contest> Roster::contested(const Membership& membership) {
  std::erase_if(told_, [this](PeerId id) { return std::ranges::find(contesting_, id) == contesting_.end(); });
  for (const PeerId id : contesting_) {
    if (id == membership.self().id || std::ranges::find(told_, id) != told_.end()) continue;
    told_.push_back(id);
    return Contest{id, described(membership.find(id)->member)};
  }
  return std::nullopt;
}

std::optional<std::string> Roster::missing() const {
  for (std::size_t k = 0; k < shards_.size() + racks_.size(); ++k) {
    const auto& holder = k < shards_.size() ? shards_[k] : racks_[k - shards_.size()];
    if (!holder) return "the parameter server s" + std::to_string(k) + " is not there yet";
  }
  return std::nullopt;
}

namespace {

bool can_meet(Instant now, const Membership& membership, const std::optional<PeerId>& server) {
  const Record* const record = server ? membership.find(*server) : nullptr;
  return record != nullptr && record->may_exchange(now);
}

}  // namespace

std::vector<Roster::Target> Roster::targets(Instant now, const Membership& membership) const {
  std::vector<Target> targets;
  if (role_.kind == Role::Kind::shard) return targets;
  if (role_.kind == Role::Kind::worker && servers_.racks > 0) {
    if (const auto server = rack_server(now, membership)) targets.push_back(*server);
    return targets;
  }
  for (std::uint32_t k = 0; k < servers_.shards; ++k) {
    if (can_meet(now, membership, shards_[k])) targets.push_back({*shards_[k], {k, servers_.shards}});
  }
  return targets;
}

std::optional<Roster::Target> Roster::rack_server(Instant now, const Membership& membership) const {
  const std::size_t rack = own_worker_ * servers_.racks / std::max<std::size_t>(1, workers_.size());
  for (std::size_t k = 0; k < servers_.racks; ++k) {
    const auto& server = racks_[(rack + k) % servers_.racks];
    if (can_meet(now, membership, server)) return Target{*server, {}};
  }
  return std::nullopt;
}

// The workers of a rack's server: the members of its rack, if all racks have servers.
bool Roster::pushes_here(PeerId id) const {
  if (role_.kind == Role::Kind::shard && servers_.racks > 0) {
    return std::ranges::find(racks_, std::optional(id)) != racks_.end();
  }
  const auto found = std::ranges::find(workers_, id);
  if (found == workers_.end()) return false;
  if (role_.kind == Role::Kind::shard) return true;
  const auto place = static_cast<std::size_t>(found - workers_.begin());
  return place * servers_.racks / workers_.size() == role_.number;
}

std::size_t Roster::pushers() const {
  std::ptrdiff_t count = 0;
  if (role_.kind == Role::Kind::shard && servers_.racks > 0)
    count = std::ranges::count(racks_, true, &std::optional<PeerId>::has_value);
  else if (serves())
    count = std::ranges::count_if(workers_, [this](PeerId id) { return pushes_here(id); });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, count));
}

bool Roster::anyone_unfinished(const Membership& membership) const {
  return std::ranges::any_of(membership.others(), [&](const Record& record) {
    return record.is_live() && record.member.phase != wire::Phase::finished && pushes_here(record.member.id);
  });
}

}  // namespace starling::gossip

#include "gossip/meeting/roster.h"

#include <algorithm>

#include "gossip/meeting/partner.h"

namespace starling::gossip {

bool Roster::refresh(const Membership& membership) {
  if (version_ == membership.version()) return false;
  version_ = membership.version();
  role_ = role_of(membership.self().name, servers_);
  shards_.assign(servers_.shards, {});
  racks_.assign(servers_.racks, {});
  workers_.clear();
  training_.clear();
  for (const wire::Member* member : vertices(membership)) {
    const Role role = role_of(member->name, servers_);
    if (role.kind == Role::Kind::shard) shards_[role.number].push_back(member->id);
    if (role.kind == Role::Kind::rack) racks_[role.number].push_back(member->id);
    if (role.kind != Role::Kind::worker) continue;
    if (member->id == membership.self().id) own_worker_ = workers_.size();
    workers_.push_back(member->id);
    if (member->phase == wire::Phase::training) training_.push_back(member->id);
  }
  return true;
}

std::optional<std::string> Roster::missing() const {
  for (std::size_t k = 0; k < shards_.size() + racks_.size(); ++k) {
    const auto& instances = k < shards_.size() ? shards_[k] : racks_[k - shards_.size()];
    if (instances.empty()) return "the parameter server s" + std::to_string(k) + " is not there yet";
  }
  return std::nullopt;
}

namespace {

std::optional<PeerId> one_to_meet(Instant now, const Membership& membership,
                                  const std::vector<PeerId>& instances) {
  for (const PeerId id : instances) {
    const Record* const record = membership.find(id);
    if (record != nullptr && record->may_exchange(now)) return id;
  }
  return std::nullopt;
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
    if (const auto id = one_to_meet(now, membership, shards_[k]))
      targets.push_back({*id, {k, servers_.shards}});
  }
  return targets;
}

std::optional<Roster::Target> Roster::rack_server(Instant now, const Membership& membership) const {
  const std::size_t rack = own_worker_ * servers_.racks / std::max<std::size_t>(1, workers_.size());
  for (std::size_t k = 0; k < servers_.racks; ++k) {
    if (const auto id = one_to_meet(now, membership, racks_[(rack + k) % servers_.racks]))
      return Target{*id, {}};
  }
  return std::nullopt;
}

// The workers of a rack's server: the members of its rack, if all racks have servers.
bool Roster::pushes_here(PeerId id) const {
  if (role_.kind == Role::Kind::shard && servers_.racks > 0) {
    return std::ranges::any_of(
        racks_, [id](const auto& instances) { return std::ranges::find(instances, id) != instances.end(); });
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
    count = std::ranges::count(racks_, false, &std::vector<PeerId>::empty);
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

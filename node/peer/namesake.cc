#include "node/peer/namesake.h"

#include <algorithm>

#include <fmt/format.h>

namespace starling::node {
namespace {

// Whether `a` was in the swarm before `b`. An incarnation begins as the time of the start in seconds.
bool is_before(const wire::Member& a, const wire::Member& b) {
  if (b.phase == wire::Phase::joining && a.phase > b.phase) return true;
  return a.incarnation != b.incarnation ? a.incarnation < b.incarnation : a.id < b.id;
}

// "north-2", or the first higher number that no member has.
std::string free_name(const gossip::Membership& membership) {
  for (int number = 2;; ++number) {
    const std::string name = fmt::format("{}-{}", membership.self().name, number);
    if (std::ranges::none_of(membership.others(),
                             [&](const gossip::Record& record) { return record.member.name == name; }))
      return name;
  }
}

}  // namespace

std::optional<Namesake> find_namesake(const gossip::Membership& membership, bool newcomer) {
  const wire::Member& self = membership.self();
  for (const gossip::Record& record : membership.others()) {
    const wire::Member& other = record.member;
    if (other.name != self.name || !record.responds() || !record.last_heard) continue;
    const std::string where = other.address ? " at " + to_string(other.address) : "";
    if (!newcomer)
      return Namesake{other.id, is_before(other, self),
                      fmt::format("another live member{} ({}) has this peer's name, '{}'", where,
                                  to_string(other.id), self.name)};
    return Namesake{other.id, is_before(other, self),
                    fmt::format("the name '{}' belongs to another live member{} ({}); choose another one, "
                                "such as --name {}",
                                self.name, where, to_string(other.id), free_name(membership))};
  }
  return std::nullopt;
}

}  // namespace starling::node

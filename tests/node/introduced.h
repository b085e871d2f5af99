// A membership whose members have introduced themselves.
#pragma once

#include <span>
#include <vector>

#include "gossip/members/membership.h"
#include "tests/gossip/story.h"

namespace starling::node {

// Each of these members says this about itself.
inline void introduce(gossip::Membership& membership, std::span<const wire::Member> members,
                      std::vector<gossip::Action>& out) {
  for (const wire::Member& member : members) {
    const wire::Member signed_one = gossip::by_itself(member);
    membership.merge(Instant{}, member.id, {&signed_one, 1}, out);
  }
}

}  // namespace starling::node

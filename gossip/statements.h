// What members sign: a member signs what it says about itself, the author of a topology signs that topology.
// A statement is a sequence of bytes (docs/PROTOCOL.md, "Signatures"); two that differ have different bytes.
#pragma once

#include <cstddef>
#include <tuple>
#include <vector>

#include "base/identity.h"
#include "wire/messages.h"

namespace starling::gossip {

std::vector<std::byte> statement_of(const wire::Member& member);
std::vector<std::byte> statement_of(const wire::Rewire& rewire);

// Whether the owner of member.id signed it.
bool is_authentic(const Identity& verifier, const wire::Member& member);
bool is_authentic(const Identity& verifier, const wire::Rewire& rewire);

// Of two authentic statements of one member, the later has the greater version.
inline auto version_of(const wire::Member& member) {
  return std::tuple(member.incarnation, member.liveness == wire::Liveness::left, member.phase);
}

}  // namespace starling::gossip

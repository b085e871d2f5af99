// What members sign: a member signs what it says about itself and that it has answered another one, the
// author of a topology signs that topology. A statement is a sequence of bytes (docs/PROTOCOL.md,
// "Signatures"); two that differ have different bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "base/identity.h"
#include "wire/messages.h"

namespace starling::gossip {

std::vector<std::byte> statement_of(const wire::Member& member);
std::vector<std::byte> statement_of(const wire::Rewire& rewire);
// That the owner of the key has received the Ping of the request with this number.
std::vector<std::byte> answer_statement(const PublicKey& key, PeerId requester, std::uint64_t requested);

// Whether the owner of member.id signed it.
bool is_authentic(const Identity& verifier, const wire::Member& member);
bool is_authentic(const Identity& verifier, const wire::Rewire& rewire);

// Of two authentic statements of one member, the later has the greater version.
inline auto version_of(const wire::Member& member) {
  return std::tuple(member.incarnation, member.liveness == wire::Liveness::left, member.phase);
}

}  // namespace starling::gossip

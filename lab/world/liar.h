// A member that lies about others and about itself: in all else its core follows the protocol. It sends
// messages that no honest core sends, signed only with its own key. docs/FAULTS.md lists these lies and those
// that are told to real peers (tests/hostile/lies.py, scripts/chaos).
#pragma once

#include <cstdint>
#include <vector>

#include "base/identity.h"
#include "base/random.h"
#include "gossip/actions.h"
#include "gossip/members/membership.h"
#include "lab/world/faults.h"

namespace starling::lab {

// The messages of one lie. REQUIRES: `kind` is not LieKind::any, ::offers or ::silence.
std::vector<gossip::Send> lie(LieKind kind, const gossip::Membership& membership, const Identity& identity,
                              Random& random);

}  // namespace starling::lab

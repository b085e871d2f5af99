// How far a side of an exchange moves, relative to its full weight, where the run weighs partners
// (gossip.weights). An exchange with unequal shares does not conserve the sum of both replicas: it draws the
// mean towards the side that counts more.
#pragma once

#include "gossip/events.h"
#include "gossip/members.h"

namespace starling::gossip {

// In [1/64, 1].
//
// By work: min(1, 2 s_partner / s_own), s: samples consumed so far. Partners within a factor of two count the
// same. By age: min(1, 8 u / a), a: time since the partner's samples last grew, as known here, u: its usual
// interval between two growths. Progress travels by gossip and may be late, hence the factor of eight.
float own_share(Shares shares, Instant now, const wire::Member& self, const Record& partner);

}  // namespace starling::gossip

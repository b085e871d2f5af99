// By how much less than its partner's weight a side of an exchange moves, where the run weighs partners
// (gossip.weights). An exchange with unequal shares does not keep the sum of both replicas: what counts more is
// meant to draw the mean towards itself.
#pragma once

#include "gossip/events.h"
#include "gossip/members.h"

namespace starling::gossip {

// In [1/64, 1].
//
// By work: min(1, 2 s_partner / s_own), s: samples consumed so far. Partners within a factor of two of each other
// count the same. By age: min(1, 8 u / a), a: for how long the partner's samples have stood still as seen here, u:
// how long it usually takes until they grow. News of progress travels by gossip, so a partner that was just heard
// of late is given eight of its usual intervals.
float own_share(Shares shares, Instant now, const wire::Member& self, const Record& partner);

}  // namespace starling::gossip

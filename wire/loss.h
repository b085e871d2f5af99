// Packet loss as a user of TCP observes it: nothing is lost, but it arrives late. Simulated and shaped links
// share this definition, so a drop of 1 % means the same in both.
#pragma once

#include "base/random.h"
#include "base/time.h"

namespace starling {

// The delay of a message if each transmission is lost with probability `drop`. It is sent again after
// 200 ms, the least timeout of TCP, or after two round trips if these are longer, and then after twice the
// last timeout. A result above `give_up` means that the message has not arrived by then. Draws no random
// number if drop is 0. REQUIRES: drop in [0, 1); `latency` is one way.
Duration resent_after(double drop, Duration latency, Duration give_up, Random& random);

}  // namespace starling

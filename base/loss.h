// Loss as whoever stands above TCP meets it: nothing is lost for good, it is late. Simulated and shaped links
// share this one definition, so that a drop of 1 % means the same to both.
#pragma once

#include "base/random.h"
#include "base/time.h"

namespace starling {

// How much later than at first something gets through that is lost with chance `drop` each time it is sent:
// it is sent again after 200 ms, TCP's least timeout, or after two round trips where those are longer, then
// after twice as long, and so on. Longer than `give_up`: it has not got through by then; it was not tried
// much further. Draws nothing where nothing is lost. REQUIRES: drop in [0, 1); `latency` is of one way.
Duration resent_after(double drop, Duration latency, Duration give_up, Random& random);

}  // namespace starling

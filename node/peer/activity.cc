#include "node/peer/activity.h"

#include <algorithm>

namespace starling::node {

void ActivityClock::account(Instant now, Duration idle) {
  const Duration time = now - std::exchange(since_, now);
  const Duration stood = std::clamp(idle - std::exchange(idle_, idle), Duration{0}, time);
  const Duration computed = training_ ? time - stood : Duration{0};
  sums_.computing += computed;
  if (owns_.empty() && answers_.empty()) {
    sums_.waiting += time - computed;
  } else {
    sums_.exchanging += time;
  }
}

}  // namespace starling::node

// When the next exchange is due: every N steps, every T, at random moments with mean interval T (the Poisson
// clocks of Boyd et al., "Randomized gossip algorithms", IEEE Trans. Information Theory 52, 2006), or always.
// What falls due while an exchange is in flight waits for its end and is not made up for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/random.h"
#include "gossip/events.h"

namespace starling::gossip {

class Pacer {
 public:
  Pacer(Pace pace, Random random) : pace_(pace), random_(random), interval_(pace.time) {}

  // Counts from here.
  void start(Instant now, std::uint64_t steps) { taken(now, steps); }

  bool due(Instant now, std::uint64_t steps) const {
    if (now < not_before_) return false;
    switch (pace_.kind) {
      case Pace::Kind::steps:
        return steps - last_steps_ >= pace_.steps;
      case Pace::Kind::time:
      case Pace::Kind::poisson:
        return now - last_time_ >= interval_;
      case Pace::Kind::always:
        return true;
    }
    return false;
  }

  // An exchange was begun, or there was nobody to begin one with.
  void taken(Instant now, std::uint64_t steps) {
    last_steps_ = steps;
    last_time_ = now;
    if (pace_.kind == Pace::Kind::poisson)
      interval_ = from_seconds(to_seconds(pace_.time) * random_.exponential());
  }

  // The last attempt failed: pause for a moment. Without this, `always` would spin.
  void hold_off(Instant now, Duration pause) { not_before_ = now + pause; }

  // The end of the pause, or a past instant.
  Instant not_before() const { return not_before_; }

  // When due() may change by time. REQUIRES: !due(now, steps).
  Instant next_deadline(Instant now) const {
    switch (pace_.kind) {
      case Pace::Kind::steps:
      case Pace::Kind::always:
        return now < not_before_ ? not_before_ : kNever;
      case Pace::Kind::time:
      case Pace::Kind::poisson:
        return std::max(last_time_ + interval_, not_before_);
    }
    return kNever;
  }

 private:
  Pace pace_;
  Random random_;
  Duration interval_;  // until the next one, for time and poisson
  std::uint64_t last_steps_ = 0;
  Instant last_time_;
  Instant not_before_;
};

}  // namespace starling::gossip

// When the next exchange of one's own is due: every N steps, every T, or always. At most one is in flight;
// what falls due meanwhile waits for its end and is not made up for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gossip/events.h"

namespace starling::gossip {

class Pacer {
 public:
  explicit Pacer(Pace pace) : pace_(pace) {}

  // Counting begins here.
  void start(Instant now, std::uint64_t steps) {
    last_steps_ = steps;
    last_time_ = now;
  }

  bool due(Instant now, std::uint64_t steps) const {
    if (now < not_before_) return false;
    switch (pace_.kind) {
      case Pace::Kind::steps:
        return steps - last_steps_ >= pace_.steps;
      case Pace::Kind::time:
        return now - last_time_ >= pace_.time;
      case Pace::Kind::always:
        return true;
    }
    return false;
  }

  // An exchange was begun, or there was nobody to begin one with.
  void taken(Instant now, std::uint64_t steps) {
    last_steps_ = steps;
    last_time_ = now;
  }

  // The last attempt came to nothing: leave the others alone for a moment. Without this `always` would spin.
  void hold_off(Instant now, Duration pause) { not_before_ = now + pause; }

  // The end of the hold-off, or an instant that has passed.
  Instant not_before() const { return not_before_; }

  // When due() may change by time alone. REQUIRES: !due(now, steps).
  Instant next_deadline(Instant now) const {
    switch (pace_.kind) {
      case Pace::Kind::steps:
      case Pace::Kind::always:
        return now < not_before_ ? not_before_ : kNever;
      case Pace::Kind::time:
        return std::max(last_time_ + pace_.time, not_before_);
    }
    return kNever;
  }

 private:
  Pace pace_;
  std::uint64_t last_steps_ = 0;
  Instant last_time_;
  Instant not_before_;
};

}  // namespace starling::gossip

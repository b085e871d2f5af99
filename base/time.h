// Instants and durations of the protocol. An Instant is a time of the driver's clock: the steady clock in the
// daemon, virtual time in the simulator. There is deliberately no now(): the folders without I/O get the time
// only as an argument.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace starling {

using Duration = std::chrono::nanoseconds;

struct Instant {
  Duration since_start{0};  // since the origin of the driver's clock

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant at, Duration d) { return {at.since_start + d}; }
  friend constexpr Instant operator-(Instant at, Duration d) { return {at.since_start - d}; }
  friend constexpr Duration operator-(Instant a, Instant b) { return a.since_start - b.since_start; }
};

// Later than any event; next_deadline() of a state machine that waits for none.
inline constexpr Instant kNever{Duration::max()};

constexpr double to_seconds(Duration d) { return static_cast<double>(d.count()) * 1e-9; }
// Rounds to whole nanoseconds. REQUIRES: |seconds| < 9e9.
constexpr Duration from_seconds(double seconds) {
  return Duration{static_cast<std::int64_t>(seconds * 1e9 + (seconds < 0 ? -0.5 : 0.5))};
}

}  // namespace starling

// How often something happens that counts steps or time: when a peer begins an exchange of its own
// (gossip.every), and when it writes a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace starling {

struct Pace {
  enum class Kind : std::uint8_t {
    steps,    // after this many steps of its own
    time,     // this long after the last one
    poisson,  // at random moments with this mean distance: the clock of asynchronous gossip in the literature
    always,   // as soon as the last one ended
  };
  Kind kind = Kind::steps;
  std::uint64_t steps = 8;  // with Kind::steps, else the default
  Duration time{0};         // with Kind::time and Kind::poisson, else zero
  friend bool operator==(const Pace&, const Pace&) = default;
};

inline constexpr std::uint64_t kPaceStepsMax = 1'000'000'000;
inline constexpr Duration kPaceTimeMax = std::chrono::hours(1000);

// "8 steps", "200ms", "poisson 200ms" or "always"; a bare number counts steps. format_pace() is the exact
// inverse.
Result<Pace> parse_pace(std::string_view text);
std::string format_pace(const Pace& pace);

}  // namespace starling

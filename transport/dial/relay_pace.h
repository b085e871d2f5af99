// A bandwidth that several flows share: each piece of bytes gets its time to leave. Has no clock.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/time.h"

namespace starling::transport {

class RelayPace {
 public:
  // In bits per second. An idle pace saves up at most `burst`. REQUIRES: bits_per_second > 0.
  RelayPace(double bits_per_second, Duration burst) : bits_per_second_(bits_per_second), burst_(burst) {}

  // When these bytes may leave: when those that asked before have left. In order of the calls, so flows that
  // ask for one piece at a time get equal turns. REQUIRES: `now` does not decrease.
  Duration reserve(Duration now, std::size_t bytes) {
    const Duration begin = std::max(free_, now - burst_);
    free_ = begin + from_seconds(8 * static_cast<double>(bytes) / bits_per_second_);
    return begin;
  }

 private:
  double bits_per_second_;
  Duration burst_;
  Duration free_{Duration::min()};  // when all bytes so far have left
};

}  // namespace starling::transport

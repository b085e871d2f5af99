// How a link differs from what links usually are: what a fault changes, for real and for virtual links.
#pragma once

#include <optional>

#include "base/time.h"

namespace starling::training {

struct LinkShape {
  std::optional<Duration> latency{};  // one way; unset: as usual
  std::optional<double> bandwidth{};  // bits per second, each way; unset: as usual
  double drop = 0;                    // in [0, 1): chance that a frame is lost and sent again
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

// The combination of both: the longer latency, the smaller bandwidth; a frame is lost if either loses it.
LinkShape worse(const LinkShape& a, const LinkShape& b);

}  // namespace starling::training

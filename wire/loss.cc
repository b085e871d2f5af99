#include "wire/loss.h"

#include <algorithm>

namespace starling {
namespace {

constexpr Duration kLeastTimeout = std::chrono::milliseconds(200);

}  // namespace

Duration resent_after(double drop, Duration latency, Duration give_up, Random& random) {
  Duration late{0};
  if (drop <= 0) return late;
  Duration timeout = std::max<Duration>(kLeastTimeout, 4 * latency);
  while (late <= give_up && random.chance(drop)) {
    late += timeout;
    timeout *= 2;
  }
  return late;
}

}  // namespace starling

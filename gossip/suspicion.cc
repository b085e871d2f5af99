#include "gossip/suspicion.h"

#include <algorithm>
#include <cmath>

namespace starling::gossip {

Duration answer_limit(const Record& record, Duration lag, Duration probe_interval) {
  Duration limit = probe_interval / 2;
  if (record.round_trip.count() > 0)
    limit = std::max(record.round_trip + 4 * record.round_trip_deviation, probe_interval / 10);
  return std::min(limit + 2 * lag, 4 * probe_interval);
}

Duration longest_suspicion(const MembershipOptions& options, std::size_t live) {
  return from_seconds(options.suspicion_multiplier * std::max(1.0, std::log10(static_cast<double>(live))) *
                      to_seconds(options.probe_interval));
}

Duration suspicion_window(const MembershipOptions& options, std::size_t live, std::size_t accusers) {
  constexpr std::size_t kConfirmations = Record::kAccusersMax - 1;
  const double longest = to_seconds(longest_suspicion(options, live));
  if (accusers < 2) return from_seconds(longest);
  // Even with many accusers the news needs time to reach the suspect, and its answer to come back.
  const double shortest =
      std::max(longest / 2, options.suspicion_multiplier * to_seconds(options.probe_interval));
  // Lifeguard, section IV.B: each accuser counts for less than the one before.
  const double share = std::log(static_cast<double>(accusers)) / std::log(kConfirmations + 1.0);
  return from_seconds(longest - (longest - shortest) * std::min(1.0, share));
}

}  // namespace starling::gossip

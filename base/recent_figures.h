// The figures of recent training that a peer sends to all others, for display only. wire::Vitals carries
// them, and training::PeerFigures (status, metrics, history, records) contains them.
#pragma once

#include <optional>

namespace starling {

struct RecentFigures {
  bool paused = false;  // by its owner
  std::optional<double> samples_per_second{};
  std::optional<double> loss{};      // smoothed over recent batches
  std::optional<double> distance{};  // |x - partner| / |x| in a recent exchange
  friend bool operator==(const RecentFigures&, const RecentFigures&) = default;
};

}  // namespace starling

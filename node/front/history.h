// How a peer and its swarm fared over the last hour, as the live page draws it: a point a second, and where these
// become many, fewer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace starling::node {

struct HistoryPoint {
  double seconds = 0;  // since the peer's start
  std::uint64_t steps = 0, swarm_samples = 0, exchanges = 0;
  std::optional<double> loss{}, accuracy{}, distance{}, samples_per_second{};
};

class History {
 public:
  static constexpr std::size_t kPointsMax = 1024;
  static constexpr double kKeptSeconds = 3600;

  // The points' seconds must rise. When there is no room, of each two neighbors the later one stays.
  void add(const HistoryPoint& point);
  const std::vector<HistoryPoint>& points() const { return points_; }

 private:
  std::vector<HistoryPoint> points_;
  double apart_ = 0;  // seconds between two that are kept, at least
};

}  // namespace starling::node

// The figures of a peer and its swarm over the last hour, as the live page draws them: one point a second,
// and fewer when there is no more room.
#pragma once

#include <cstdint>
#include <vector>

#include "training/records/peer_figures.h"

namespace starling::node {

struct HistoryPoint : training::PeerFigures {  // distance and speed are the swarm's
  double seconds = 0;                          // since the peer's start
  std::uint64_t exchanges = 0;
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

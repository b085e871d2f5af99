// The figures of a peer and its swarm over the last hour for the live page: one point per second, and fewer
// once kPointsMax are kept.
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

  // REQUIRES: the points' seconds increase. If there are kPointsMax points, every other one is dropped.
  void add(const HistoryPoint& point);
  const std::vector<HistoryPoint>& points() const { return points_; }

 private:
  std::vector<HistoryPoint> points_;
  double apart_ = 0;  // least seconds between two points that are kept
};

}  // namespace starling::node

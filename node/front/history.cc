#include "node/front/history.h"

#include <algorithm>

namespace starling::node {

void History::add(const HistoryPoint& point) {
  const auto old = std::find_if(points_.begin(), points_.end(), [&](const HistoryPoint& p) {
    return p.seconds >= point.seconds - kKeptSeconds;
  });
  if (old != points_.begin() && static_cast<std::size_t>(old - points_.begin()) >= kPointsMax / 16)
    points_.erase(points_.begin(), old);
  if (!points_.empty() && point.seconds - points_.back().seconds < apart_) return;
  if (points_.size() >= kPointsMax) {
    std::vector<HistoryPoint> half;
    half.reserve(kPointsMax);
    for (std::size_t i = 1; i < points_.size(); i += 2) half.push_back(points_[i]);
    // A little less than the present distance of points, so that a point of an early timer is kept.
    apart_ = 0.95 * (half.back().seconds - half.front().seconds) / static_cast<double>(half.size() - 1);
    points_ = std::move(half);
    if (point.seconds - points_.back().seconds < apart_) return;
  }
  points_.push_back(point);
}

}  // namespace starling::node

// The partial view that a peer gossips with: a few random live members at a time. A small circle keeps the
// number of open links small; slow replacement spreads news over the whole swarm.
#pragma once

#include <vector>

#include "gossip/local_view.h"

namespace starling::gossip {

class Circle {
 public:
  static constexpr std::size_t kSize = 8;

  explicit Circle(LocalView& view) : view_(view) {}

  // Draws one of the circle; null if no other member is live.
  const Record* draw();
  // Drops the oldest one of a full circle with probability 1/4; draw() replaces it.
  void renew();
  const std::vector<PeerId>& members() const { return members_; }  // oldest first

 private:
  void refill();

  LocalView& view_;
  std::vector<PeerId> members_;
};

}  // namespace starling::gossip

// How long a partner may be silent before this peer aborts its exchange: learned from earlier exchanges with
// that partner. A link with a latency of a millisecond and one of seconds each get a suitable limit, and a
// fast partner that stops costs little time.
//
// The measure is the longest silence in each exchange: until the first progress, or between two signs of it.
// The limit is eight times the usual silence, at least a second. A longer silence raises the limit at once, a
// shorter one lowers it slowly. A new partner gets the ceiling. A timeout doubles the partner's limit and the
// ceiling, so that a swarm in which everything is slow gets through.
#pragma once

#include <algorithm>
#include <map>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

class Patience {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(1);
  static constexpr int kTimesUsual = 8;
  static constexpr std::size_t kPartnersMax = 1024;  // remembered; the lowest id makes room

  explicit Patience(Duration ceiling) : least_ceiling_(ceiling), ceiling_(ceiling) {}

  Duration limit(PeerId partner) const {
    const auto found = partners_.find(partner);
    if (found == partners_.end()) return ceiling_;
    const Duration learned = std::max(kLeast, kTimesUsual * found->second.silence);
    return std::min(ceiling_, learned * (1 << found->second.timeouts));
  }

  // An exchange completed; this was its longest silence.
  void went_well(PeerId partner, Duration silence) {
    if (partners_.size() >= kPartnersMax && !partners_.contains(partner)) partners_.erase(partners_.begin());
    Usual& usual = partners_[partner];
    usual.silence = std::max(silence, (3 * usual.silence + silence) / 4);
    usual.timeouts = 0;
    ceiling_ = std::max(least_ceiling_, 4 * silence);
  }
  void timed_out(PeerId partner) {
    ceiling_ = std::min(2 * ceiling_, kMost);
    if (const auto found = partners_.find(partner); found != partners_.end())
      found->second.timeouts = std::min(found->second.timeouts + 1, 16);
  }

 private:
  static constexpr Duration kMost = std::chrono::hours(24);
  struct Usual {
    Duration silence{0};
    int timeouts = 0;  // in a row
  };
  Duration least_ceiling_, ceiling_;
  std::map<PeerId, Usual> partners_;
};

}  // namespace starling::gossip

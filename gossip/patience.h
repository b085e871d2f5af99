// How long a partner may be silent in an exchange of one's own before the exchange is given up: learned from what
// that partner was like before. A link of a millisecond and one of seconds each get a limit that suits them, and
// a partner that stops costs little time where it used to be quick.
//
// Of each exchange the longest silence counts (until the first sign of progress, or between two). The limit is
// eight times what is usual, at least a second; a longer silence is believed at once, a shorter one slowly. A
// partner that was not met yet gets the ceiling; after a time-out both its limit and the ceiling are doubled, so
// that a swarm in which everything takes long gets through.
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
  static constexpr std::size_t kPartnersMax = 1024;  // remembered; the one with the lowest id makes room

  explicit Patience(Duration ceiling) : least_ceiling_(ceiling), ceiling_(ceiling) {}

  Duration limit(PeerId partner) const {
    const auto found = partners_.find(partner);
    if (found == partners_.end()) return ceiling_;
    const Duration learned = std::max(kLeast, kTimesUsual * found->second.silence);
    return std::min(ceiling_, learned * (1 << found->second.timeouts));
  }

  // An exchange went through, and this was its longest silence.
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

// How often a partner may begin an exchange with this peer, under rules that bound the influence of one liar:
// about twice as often as this peer begins its own, with a small burst (a token bucket for each partner).
#pragma once

#include <algorithm>
#include <map>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

class Acceptance {
 public:
  static constexpr double kBurst = 4;
  static constexpr double kPerOwn = 2;  // a partner's exchanges for each of this peer's
  static constexpr std::size_t kPartnersMax = 1024;

  void start(Instant now) { last_own_ = now; }
  // This peer begins an exchange of its own.
  void own(Instant now) {
    const Duration since = now - last_own_;
    interval_ = interval_.count() == 0 ? since : (3 * interval_ + since) / 4;
    last_own_ = now;
  }
  // Whether this partner's offer may be accepted now. If so, it is counted.
  bool take(Instant now, PeerId partner) {
    if (buckets_.size() >= kPartnersMax && !buckets_.contains(partner)) buckets_.erase(buckets_.begin());
    Bucket& bucket = buckets_.try_emplace(partner, Bucket{kBurst, now}).first->second;
    // Before the first own exchange, as if it began now.
    const Duration interval = interval_.count() > 0 ? interval_ : now - last_own_;
    if (interval.count() > 0) {
      const double owns = to_seconds(now - bucket.since) / to_seconds(interval);
      bucket.tokens = std::min(kBurst, bucket.tokens + kPerOwn * owns);
    }
    bucket.since = now;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

 private:
  struct Bucket {
    double tokens;
    Instant since;
  };
  Duration interval_{0};  // smoothed interval between own exchanges; 0: there was none
  Instant last_own_;
  std::map<PeerId, Bucket> buckets_;
};

}  // namespace starling::gossip

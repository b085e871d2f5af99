// The timing of exchanges: when the next is due (Pacer), how long a partner may be silent (Patience), and how
// often a partner may come (Acceptance).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/random.h"
#include "base/time.h"
#include "wire/rules/pace.h"

namespace starling::gossip {

// When the next exchange is due: every N steps, every T, at random moments with mean interval T (the Poisson
// clocks of Boyd et al., "Randomized gossip algorithms", IEEE Trans. Information Theory 52, 2006), or always.
// What falls due while an exchange is in flight waits for its end and is not made up for.
class Pacer {
 public:
  Pacer(Pace pace, Random random) : pace_(pace), random_(random), interval_(pace.time) {}

  bool due(Instant now, std::uint64_t steps) const {
    if (now < not_before_) return false;
    if (pace_.kind == Pace::Kind::steps) return steps - last_steps_ >= pace_.steps;
    return pace_.kind == Pace::Kind::always || now - last_time_ >= interval_;
  }

  // Training began, an exchange was begun, or there was nobody to begin one with: counts from here.
  void taken(Instant now, std::uint64_t steps) {
    last_steps_ = steps;
    last_time_ = now;
    if (pace_.kind == Pace::Kind::poisson)
      interval_ = from_seconds(to_seconds(pace_.time) * random_.exponential());
  }

  // The last attempt failed: pause for a moment. Without this, `always` would spin.
  void hold_off(Instant now, Duration pause) { not_before_ = now + pause; }

  // The end of the pause, or a past instant.
  Instant not_before() const { return not_before_; }

  // When due() may change by time. REQUIRES: !due(now, steps).
  Instant next_deadline(Instant now) const {
    if (pace_.kind == Pace::Kind::time || pace_.kind == Pace::Kind::poisson)
      return std::max(last_time_ + interval_, not_before_);
    return now < not_before_ ? not_before_ : kNever;
  }

 private:
  Pace pace_;
  Random random_;
  Duration interval_;  // until the next one, for time and poisson
  std::uint64_t last_steps_ = 0;
  Instant last_time_;
  Instant not_before_;
};

// How long a partner may be silent before this peer aborts its exchange: learned from earlier exchanges with
// that partner. A link with a latency of a millisecond and one of seconds each get a suitable limit, and a
// fast partner that stops costs little time.
//
// The measure is the longest silence in each exchange: until the first progress, or between two signs of it.
// The limit is eight times the usual silence, at least a second. A longer silence raises the limit at once, a
// shorter one lowers it slowly. A new partner gets the ceiling. A timeout doubles the partner's limit and the
// ceiling, so that a swarm in which everything is slow gets through.
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

// How often a partner may begin an exchange with this peer, under rules that bound the influence of one liar:
// about twice as often as it would at this peer's pace, with a small burst (a token bucket for each partner).
// Identities are cheap, so all newcomers together have one bucket more: half of this peer's own pace. Of its
// own exchanges it begins one of four with newcomers.
class Acceptance {
 public:
  static constexpr double kBurst = 4;
  static constexpr double kPace = 2;  // of a partner, at most, relative to this peer's
  static constexpr std::size_t kPartnersMax = 1024;
  static constexpr double kNewcomersPace = 0.5;
  static constexpr int kOwnsPerNewcomer = 4;

  void start(Instant now) { start_ = last_own_ = newcomers_.since = now; }
  // This peer begins an exchange of its own.
  void own(Instant now, bool with_newcomer = false) {
    since_newcomer_ = with_newcomer ? 1 : since_newcomer_ + 1;
    const Duration since = now - last_own_;
    interval_ = interval_.count() == 0 ? since : (3 * interval_ + since) / 4;
    last_own_ = now;
  }
  // Whether a member since `met` has been there for less than half of the time since this peer began.
  bool is_newcomer(Instant now, Instant met) const { return met > start_ && 2 * (now - met) < now - start_; }
  // Whether the next own exchange may be one with a newcomer.
  bool may_begin_with_newcomer() const { return since_newcomer_ >= kOwnsPerNewcomer; }
  // Whether the offer of this partner, a member since `met` that begins this share of its exchanges with this
  // peer, may be accepted now. If so, it is counted. REQUIRES: 0 < share <= 1.
  bool take(Instant now, PeerId partner, Instant met, double share) {
    constexpr double kNewcomersShare = kNewcomersPace / kPace;
    const bool is_new = is_newcomer(now, met);
    Bucket& own = bucket_of(partner, now);
    fill(own, now, is_new ? share * kNewcomersShare : share);
    fill(newcomers_, now, kNewcomersShare);
    if (own.tokens < 1 || (is_new && newcomers_.tokens < 1)) return false;
    own.tokens -= 1;
    if (is_new) newcomers_.tokens -= 1;
    return true;
  }

 private:
  struct Bucket {
    double tokens = kBurst;
    Instant since;
  };

  Bucket& bucket_of(PeerId partner, Instant now) {
    if (buckets_.size() >= kPartnersMax && !buckets_.contains(partner)) {  // forget who has not come for long
      buckets_.erase(
          std::ranges::min_element(buckets_, {}, [](const auto& entry) { return entry.second.since; }));
    }
    return buckets_.try_emplace(partner, Bucket{kBurst, now}).first->second;
  }
  void fill(Bucket& bucket, Instant now, double share) const {
    // Before the first own exchange, as if it began now.
    const Duration interval = interval_.count() > 0 ? interval_ : now - last_own_;
    if (interval.count() > 0) {
      const double owns = to_seconds(now - bucket.since) / to_seconds(interval);
      bucket.tokens = std::min(kBurst, bucket.tokens + kPace * share * owns);
    }
    bucket.since = now;
  }

  Duration interval_{0};  // smoothed interval between own exchanges; 0: there was none
  Instant start_, last_own_;
  std::map<PeerId, Bucket> buckets_;
  Bucket newcomers_;
  int since_newcomer_ = kOwnsPerNewcomer;  // own exchanges since the latest with a newcomer, and that one
};

}  // namespace starling::gossip

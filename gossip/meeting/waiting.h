// For whom a peer waits, under rules with a barrier: waiting needs recent proof of work. A member that lives
// need not take part in rounds, and one that only answers pings must not stop the others.
//
// A partner that keeps this peer waiting for kRounds times the median of its latest rounds, and at least
// kLeast, is passed over for a pause. The first pause is as long as that wait, and each further one is twice
// as long as the one before, up to a day, so a partner that never answers costs a sum that grows with the
// logarithm of time. An exchange that completes ends the pause, unless the waits for this partner are more
// than a few and a kShare of the time. Before kKnown rounds the limit is the longest one: nobody knows yet
// how slow the slowest peer is.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

class RoundWaits {
 public:
  static constexpr Duration kLeast = std::chrono::seconds(2);
  static constexpr int kRounds = 10;
  static constexpr std::size_t kKnown = 5;
  static constexpr Duration kLongestPause = std::chrono::hours(24);
  static constexpr int kForgiven = 4;                // waits at once
  static constexpr int kShare = 16;                  // and one part of the time in so many
  static constexpr std::size_t kPartnersMax = 1024;  // remembered; the one whose pause ends first makes room

  // `most`: the longest wait. Without `learns`, every wait may be as long.
  explicit RoundWaits(Duration most, bool learns = true) : most_(most), learns_(learns) {}

  // The next round begins. `counts`: the one before was a round with others. One in which somebody was passed
  // over was, so that the median follows if all become slow.
  void round_begins(Instant now, bool counts = true) {
    if (began_ && counts) rounds_[count_++ % rounds_.size()] = now - *began_;
    began_ = now;
  }
  // This peer woke `late` after its deadline: that was no wait.
  void slept(Duration late) {
    if (began_) began_ = *began_ + late;
  }
  // Whether the limit follows from rounds.
  bool is_known() const { return learns_ && count_ >= kKnown; }
  // Since the round began.
  Duration waited(Instant now) const { return began_ ? now - *began_ : Duration{0}; }
  // How long a round may wait for a partner.
  Duration limit() const {
    if (!is_known()) return most_;
    auto sorted = rounds_;
    const auto known = static_cast<std::ptrdiff_t>(std::min(count_, rounds_.size()));
    const auto middle = sorted.begin() + (known - 1) / 2;
    std::nth_element(sorted.begin(), middle, sorted.begin() + known);
    return std::clamp(kRounds * *middle, std::min(kLeast, most_), most_);
  }

  // This partner did not answer for `waited`. Returns the pause in which it is not awaited.
  Duration pass_over(Instant now, PeerId partner, Duration waited) {
    if (pauses_.size() >= kPartnersMax && !pauses_.contains(partner))
      pauses_.erase(
          std::ranges::min_element(pauses_, {}, [](const auto& entry) { return entry.second.until; }));
    Pause& pause = pauses_[partner];
    pause.spent = spent(now, pause) + waited;
    pause.length = pause.length.count() == 0 ? waited : std::min(2 * pause.length, kLongestPause);
    pause.wait = waited;
    pause.since = now;
    pause.until = now + pause.length;
    return pause.length;
  }
  // An exchange with this partner was completed.
  void worked(Instant now, PeerId partner) {
    const auto found = pauses_.find(partner);
    if (found == pauses_.end() || spent(now, found->second) > kForgiven * found->second.wait) return;
    found->second.length = Duration{0};
    found->second.until = now;
  }
  bool awaits(Instant now, PeerId partner) const {
    const auto found = pauses_.find(partner);
    return found == pauses_.end() || found->second.until <= now;
  }

 private:
  struct Pause {
    Duration length{0};  // 0: the next one is the first
    Duration wait{0};    // the latest
    Duration spent{0};   // waits for this partner, less kShare of the time, at `since`
    Instant since, until;
  };

  static Duration spent(Instant now, const Pause& pause) {
    return std::max(Duration{0}, pause.spent - (now - pause.since) / kShare);
  }

  Duration most_;
  bool learns_;
  std::array<Duration, 15> rounds_{};  // the latest
  std::size_t count_ = 0;              // of all that were measured
  std::optional<Instant> began_;       // of the latest
  std::map<PeerId, Pause> pauses_;
};

}  // namespace starling::gossip

// The number of a peer's round: a logical clock. Peers do not agree on when a round begins. A peer that was
// left behind (it joined late, was cut off, or is slow and nobody waits for it) gets the number of a later
// round from an offer or a rejection, and its next round has that number.
#pragma once

#include <algorithm>
#include <cstdint>

namespace starling::gossip {

class RoundCount {
 public:
  // Numbers farther ahead are ignored, so that no false claim uses up the numbers.
  static constexpr std::uint64_t kAheadMost = std::uint64_t{1} << 32;

  std::uint64_t current() const { return round_; }  // 0: none has begun
  std::uint64_t next() const { return std::max(round_ + 1, seen_); }
  // Another peer is in this round. If that is farther ahead than a peer in step can be, this peer was left
  // behind.
  void left_behind(std::uint64_t round) {
    if (round <= round_ + kAheadMost && (round_ == 0 || round > round_ + 1 + lead_))
      seen_ = std::max(seen_, round);
  }
  // Begins the next round and returns its number.
  std::uint64_t begin() { return round_ = next(); }

 protected:
  std::uint64_t lead_ = 0;  // rounds that a peer in step may be ahead, beyond one

 private:
  std::uint64_t round_ = 0, seen_ = 0;
};

}  // namespace starling::gossip

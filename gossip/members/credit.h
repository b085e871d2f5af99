// Which claims about samples are possible. The swarm's progress is a sum of claims, and a run may end by it,
// so a claim that no machine could make true is not counted. What a member says about itself may grow by
// kOwnFactor times the samples that the reference consumes in the elapsed time; what others say of it, by
// kOthersFactor times, from what the member itself said last. The reference is this peer's own speed or the
// median of the other members' speeds, if that is greater: a minority of liars does not move it.
#pragma once

#include <cstdint>

#include "gossip/members/members.h"

namespace starling::gossip {

class Credit {
 public:
  // A GPU can be some hundred times as fast as the only other peer, a CPU.
  static constexpr double kOwnFactor = 1000;
  static constexpr double kOthersFactor = 4;
  // Samples a second. A member's own claims are compared with at least the former, or with the latter while
  // no speed is known.
  static constexpr double kSlowest = 1000, kUnknown = 100'000;
  static constexpr std::uint64_t kSlack = 4096;  // samples

  explicit Credit(const LocalView& view) : view_(view) {}

  // This peer has consumed this number of samples.
  void own(Instant now, std::uint64_t samples);
  // Whether the claim is possible. `by_itself`: the member itself makes it; the record then keeps it.
  bool accept(Instant now, Record& record, std::uint64_t samples, bool by_itself);

 private:
  double reference(Instant now, const Record& except);
  double limit(Instant now, const Record& record, double speed, double factor) const;

  const LocalView& view_;
  SpeedMeter own_;
  double median_ = 0;  // of the other members' speeds
  Instant median_at_{Duration::min()};
};

}  // namespace starling::gossip

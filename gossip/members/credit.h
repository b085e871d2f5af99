// Which claims about samples are possible. The swarm's progress is a sum of claims, and a run may end by it,
// so a claim that no machine could make true is not counted. What a member says about itself may grow by
// kOwnFactor times the samples that the reference consumes in the elapsed time; what others say of it, by
// kOthersFactor times, from what the member itself said last. The reference is this peer's own speed or the
// median of the other members' speeds, if that is greater: a minority of liars does not move it.
//
// A machine can be that fast, but anyone can make a new identity and claim it. So a member counts only from
// when it trains, and what it consumed before this peer met it only as far as the Welcome or two other
// members say. Where peers exchange parameters with one another, claims come from members with which this
// peer has completed an exchange: about themselves, and about others what they have accepted. Without such a
// claim a member counts at most as much, since they met, as this peer and its partners do: one identity that
// does no work cannot double the swarm's progress.
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
  // This peer has just met the member.
  void meet(Instant now, Record& record) const;
  // Another member says that this one has consumed that number of samples. The smaller one of what two of
  // them say in the first kMeeting is what it consumed before, if kOthersFactor allows that.
  void vouch(Instant now, Record& record, PeerId teller, std::uint64_t samples);
  static constexpr Duration kMeeting = std::chrono::seconds(10);
  enum class Verdict : std::uint8_t {
    counts,
    waits,  // possible, and more than counts now
    impossible,
  };
  // `by_itself`: the member itself makes the claim. `teller_works`: an exchange with the member that makes it
  // was completed.
  Verdict judge(Instant now, Record& record, std::uint64_t samples, bool by_itself, bool teller_works);

 private:
  double reference(Instant now, const Record& except);
  double limit(Instant now, const Record& record, double speed, double factor) const;
  bool counts(const Record& record, std::uint64_t samples, bool teller_works) const;

  const LocalView& view_;
  SpeedMeter own_;
  std::uint64_t own_samples_ = 0;
  // Samples that this peer consumed, and that members consumed after their first exchange with it.
  std::uint64_t worked_ = 0;
  double median_ = 0;  // of the other members' speeds
  Instant median_at_{Duration::min()};
};

}  // namespace starling::gossip

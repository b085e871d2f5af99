// Which claims about samples count. The swarm's progress is a sum of claims, and a run may end by it, so a
// claim that no machine could make true is not counted. What others say of a member may grow by kOthersFactor
// times the samples that the reference consumes in the elapsed time, from what the member itself said last.
// The reference is this peer's own speed or the median of the other members' speeds, if that is greater: a
// minority of liars does not move it. What a member says about itself counts up to kOwnFactor times the speed
// of the fastest other member that takes part in exchanges, or of this peer; more with each exchange, up to
// kImpossible times, since one machine may be hundreds of times as fast as all others. The rest waits.
//
// Anyone can make a new identity and claim. So a member counts only from when it trains, and what it consumed
// before this peer met it only as far as the Welcome or two other members say. Where peers exchange
// parameters with one another, claims come from members with which this peer has completed an exchange: about
// themselves, and about others what they have accepted. Without such a claim a member counts at most as much,
// since they met, as this peer and its partners do: one identity that does no work cannot double the swarm's
// progress.
#pragma once

#include <cstdint>

#include "gossip/members/members.h"

namespace starling::gossip {

class Credit {
 public:
  static constexpr double kOwnFactor = 10, kExchangesForMore = 8;
  static constexpr double kOthersFactor = 4;
  // Of the reference: a claim beyond is a lie. A GPU can be some hundred times as fast as the only other
  // peer.
  static constexpr double kImpossible = 1000;
  // Samples a second. The limit of what is possible has at least the first as the reference, and the second
  // while no speed is known. What counts then has the third, for kMeeting.
  static constexpr double kSlowest = 1000, kUnknown = 100'000, kEarly = 10'000;
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
  // was completed. `samples` becomes what counts of the claim.
  Verdict judge(Instant now, Record& record, std::uint64_t& samples, bool by_itself, bool teller_works);
  // The samples that count of a member since it came, if they are more than half of all since then, and more
  // than kOthersFactor times what the fastest other one consumed; else 0. Also 0 of a member that took part
  // for most of the run, or before this peer did: a fast machine among slow ones is no reason for doubt.
  std::uint64_t lead(Instant now, const Record& record);

 private:
  double own_speed(Instant now) const;
  void look_at_speeds(Instant now);
  double reference(Instant now, const Record& except);
  // The speed of the fastest other member that works, or of this peer.
  double fastest(Instant now, const Record& except);
  std::uint64_t all() const { return add_saturated(view_.self.samples, view_.members.samples()); }
  double limit(Instant now, const Record& record, double speed, double factor) const;
  std::uint64_t allowed(Instant now, Record& record);
  bool counts(const Record& record, std::uint64_t samples, bool teller_works) const;

  const LocalView& view_;
  SpeedMeter own_;
  std::uint64_t own_samples_ = 0;
  // Samples that this peer consumed, and that members consumed after their first exchange with it.
  std::uint64_t worked_ = 0;
  double median_ = 0;                // of the other members' speeds
  double fastest_ = 0, second_ = 0;  // of those of members that work
  PeerId first_{};                   // whose is fastest_
  Instant speeds_at_{Duration::min()};
};

}  // namespace starling::gossip

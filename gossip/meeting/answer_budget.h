// Which exchanges and copies of others end to make room for new ones: the policy of a peer that serves as
// many as it can. An *answer* is an accepted exchange that another peer began; a *copy* sends this peer's
// parameters to a joiner. The driver reports what begins, moves and ends, asks before it serves another one,
// and ends what it is told.
//
//  1. A peer has at most answers_per_peer answers. A further offer ends the one that moved least recently:
//  its
//     connection may be dead.
//  2. When answers_scarce answers are under way and the core refuses an offer as busy, an answer that has no
//     chunk yet or is slow ends: one of the peer that wasted most answers, among these one without a chunk,
//     among these the one that moved least recently, among these the oldest. None ends if that peer wasted
//     fewer answers than the peer that offers, so a peer that only occupies places does not get those of
//     others.
//  3. A peer has one copy. Its further request ends the one before. When `copies` are under way, a request
//  ends
//     the slow copy that moved least recently.
//
// A transfer is slow if it moved nothing for two seconds, or less than 16 KB/s in its latest measured
// interval of two seconds or more. An answer is wasted if it ends without a chunk; a completed exchange
// clears the count of its peer. An honest initiator's chunks follow its offer at once, so its answers are
// rarely wasted.
//
// Bounds: k peers have at most k * answers_per_peer answers. Answers and copies are as many as the driver
// reports; wasted answers are counted for at most `wasters` peers, of whom the one with the fewest is
// forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

struct AnswerLimits {
  std::size_t answers_per_peer = 2;  // at once; > 0
  std::size_t answers_scarce = 16;   // PeerOptions::answers_max of the core
  std::size_t copies = 8;            // at once; other joiners must ask another peer
  std::size_t wasters = 256;         // peers whose wasted answers are counted; > 0
};

class AnswerBudget {
 public:
  // The driver's number of an answer or a copy; a later one has a greater number.
  using Number = std::uint64_t;

  static constexpr Duration kTrial = std::chrono::seconds(2);
  static constexpr double kFloorPerSecond = 16384;  // bytes

  explicit AnswerBudget(const AnswerLimits& limits = {}) : limits_(limits) {}

  // ---- answers ----
  // The answer that must end for a further one of this peer (rule 1). To be asked when its offer arrives, so
  // that the core counts one answer less, and when it is accepted: several offers may have waited.
  std::optional<Number> end_for_offer(PeerId of) const;
  // The answer that ends because the core refuses an offer of this peer as busy (rule 2).
  std::optional<Number> end_for_refused(PeerId of, Instant now) const;
  // REQUIRES: !end_for_offer(of); the number is new.
  void answer_began(Number number, PeerId of, Instant now);
  // A chunk of it has arrived. No effect unless it is under way; the same holds for the next one.
  void answer_moved(Number number, Instant now, std::uint64_t bytes);
  void answer_ended(Number number, bool completed);
  std::size_t answers() const { return answers_.size(); }

  // ---- copies ----
  // The copy that ends because this peer requests one (rule 3).
  std::optional<Number> end_for_copy(PeerId of, Instant now) const;
  // Whether another copy may begin.
  bool may_copy() const { return copies_.size() < limits_.copies; }
  void copy_began(Number number, PeerId of, Instant now);  // REQUIRES: may_copy(); the number is new
  // A chunk of it was written. No effect unless it is under way; the same holds for the next one.
  void copy_moved(Number number, Instant now, std::uint64_t bytes);
  void copy_ended(Number number) { copies_.erase(number); }

  // Answers of this peer that ended without a chunk since its last completed exchange.
  std::uint32_t wasted_by(PeerId peer) const;

 private:
  struct Transfer {
    PeerId peer;
    Instant measured{}, last{};  // since when bytes are counted; the latest motion, or the beginning
    std::uint64_t bytes = 0;     // since `measured`
    bool begun = false;          // it has moved a chunk
    bool below_floor = false;    // in its latest measured interval

    void moved(Instant now, std::uint64_t more);
    bool is_slow(Instant now) const { return below_floor || now - last >= kTrial; }
  };

  bool ends_before(const Transfer& a, const Transfer& b) const;
  void count_waste(PeerId peer);

  AnswerLimits limits_;
  std::map<Number, Transfer> answers_, copies_;
  std::map<PeerId, std::uint32_t> wasted_;  // no count is 0
};

}  // namespace starling::gossip

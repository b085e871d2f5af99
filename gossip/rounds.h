// Rounds: what a peer counts under rules that have them, and the books of a round in lock-step.
//
// The count is a logical clock. Peers do not agree on when a round begins; whoever was left behind (it has joined
// late, it was cut off, it computes slowly and nobody waits) learns of a later round from an offer or a refusal, and
// its next round is that one.
//
// In lock-step a round is one exchange along each link of the topology, and a barrier between neighbors: of the two
// ends of a link the one with the lower id begins the exchange, as soon as it is in that round itself, with all such
// neighbors at once. What the other end does with the offer depends on the round that it is in, or would begin next:
// - the same: it accepts where it is in it, and holds the offer where it still makes the step before;
// - an earlier one: it holds the offer until it gets there;
// - a later one: it refuses with that round's number.
//
// No round is skipped in which somebody waits. A peer jumps only to where others went on without it: to a round
// that is farther ahead than a neighbor in step can be, of which it was told by a refusal or an offer. (A neighbor
// is rightly ahead by one, and by more where the topology varies in time and the two do not meet in each round.)
// Whoever waited for it in a round that it jumps over learns so by what it does there at once: its offer passes the
// waiting one over, its refusal lets the waiting one go on. Where both have a link, one of the two must come.
//
// Neighbors are waited for only while they live and the topology links them (the peer passes over who does not), and
// an offer is awaited only of partners in step: with whom the last exchange went through, or who offered an earlier
// round and were told this one; and of those no longer as soon as they offer a later round.
//
// Peers whose views differ see different links, and one may await an offer that the other will never make. So who
// has waited for a moment asks: it makes the offer itself. The partner refuses where it is beyond that round or has no
// such link in it, and is not waited for before the round that it says it is in; in an earlier round it holds the offer,
// and answers it when it gets there instead of making its own. Of two offers that cross, the lower id's is answered and
// the other withdrawn, unless the lower id's was lost on its way: then there is no sign of it, and in a moment it is the
// other's. After the asking everybody waits for somebody in an earlier round only: never in a circle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace starling::gossip {

class Rounds {
 public:
  struct Edge {
    PeerId partner;
    float weight = 0;  // W_ij
    bool own = false;  // this peer begins the exchange, unless the partner has asked for it
    enum class State : std::uint8_t { waiting, under_way, over } state = State::waiting;
    std::uint64_t answered = 0;  // the partner's exchange that is under way, where it began it
  };
  struct Offer {
    PeerId from;
    std::uint64_t exchange = 0;
    std::uint64_t round = 0;
  };
  enum class Verdict : std::uint8_t { accept, hold, refuse };

  // By so much nobody is ahead: what is farther off is not believed, so that no liar uses up the numbers.
  static constexpr std::uint64_t kAheadMost = std::uint64_t{1} << 32;

  // ---- the count ----
  std::uint64_t current() const { return round_; }  // 0: there was none yet
  std::uint64_t next() const { return std::max(round_ + 1, seen_); }
  // Somebody is in this round. Where it is beyond what one in step may be, it went on without this peer.
  void left_behind(std::uint64_t round) {
    if (round <= round_ + kAheadMost && (round_ == 0 || round > round_ + 1 + lead_)) seen_ = std::max(seen_, round);
  }
  // Begins the next one, and returns it.
  std::uint64_t begin() { return round_ = next(); }

  // ---- lock-step ----
  bool open() const { return open_; }
  // A neighbor may be ahead by one round, and by `lead` more where the topology varies in time.
  // REQUIRES: begin() was called, !open().
  void open(std::vector<Edge> edges, std::uint64_t lead = 0);
  void close() { open_ = false; }
  // The round in which this peer is, or which it would begin next: offers of earlier ones are refused.
  std::uint64_t expected() const { return open_ ? round_ : next(); }

  const std::vector<Edge>& edges() const { return edges_; }
  // With this partner in the round that is open; null where there is none.
  Edge* edge(PeerId partner);
  // An exchange that this peer is to begin; null where there is none.
  Edge* next_own();
  // Nothing is under way in the round that is open, and nobody is waited for.
  bool all_over() const;
  bool in_step(PeerId partner) const;
  // The exchange with this partner is over; whether it went through.
  void meet(PeerId partner, bool completed);
  // This partner will come in that round.
  void comes_in(PeerId partner, std::uint64_t round);
  // Whoever was in step is not any more: this peer begins anew.
  void lose_step() { in_step_.clear(); }

  // What becomes of an offer now. A partner that offers a later round has passed over this peer in this one.
  Verdict judge(const Offer& offer);
  void hold(const Offer& offer) { held_.push_back(offer); }
  // It is held no more; false where it was not.
  bool withdraw(PeerId from, std::uint64_t exchange);
  std::optional<Offer> held_of(PeerId from) const;
  std::optional<Offer> any_held() const { return held_.empty() ? std::nullopt : std::optional(held_.front()); }
  // A held one that is not to be held any longer, taken out; nullopt where there is none.
  std::optional<Offer> ripe();

 private:
  std::uint64_t round_ = 0, seen_ = 0;
  bool open_ = false;
  std::uint64_t lead_ = 0;
  std::vector<Edge> edges_;
  std::vector<Offer> held_;  // in the order they came, one of a partner
  struct InStep {
    PeerId partner;
    std::uint64_t from = 0;  // the first round in which it is awaited
  };
  std::vector<InStep> in_step_;
};

}  // namespace starling::gossip

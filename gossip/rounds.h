// The books of a round in lock-step: one exchange along each link of the topology, and a barrier between
// neighbors.
//
// Of the two ends of a link, the one with the lower id begins the exchange as soon as it is in the round
// itself; a peer begins all of its own at once. What the other end does with the offer depends on its round,
// or on the round that it would begin next:
// - the same round: it accepts if it is in it, and holds the offer while it still makes the step before;
// - an earlier round: it holds the offer until it gets there;
// - a later round: it rejects with that round's number.
//
// A peer jumps over rounds only if the others went on without it: to a round that is farther ahead than a
// neighbor in step can be, whose number it got from a rejection or an offer. (A neighbor in step is ahead by
// at most one round, or more if the topology varies in time and the two do not meet in every round.) A peer
// that waited for it in a round that it jumps over is freed by the jump: an offer passes over the waiting
// peer, and a rejection ends the wait. If both have a link, one of the two must come.
//
// A peer waits only for neighbors that live and that the topology links, and awaits offers only of partners
// in step: those whose last exchange with it completed, or who offered an earlier round and were told this
// one. It stops as soon as they offer a later round.
//
// Peers with different views compute different links, and one may await an offer that the other will never
// make. A peer that has waited for a moment therefore asks: it makes the offer itself. The partner rejects it
// if it is beyond that round or has no such link in it, and is then not awaited before the round that it
// names; in an earlier round it holds the offer, and answers it when it gets there instead of making its own.
// If two offers cross, the lower id's is answered and the other withdrawn. If the lower id's offer was lost,
// there is no progress on it, and after a moment the other one is answered. After asking, a peer waits only
// for peers in earlier rounds, so no cycle of waiting peers can form.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "gossip/offer.h"
#include "gossip/round_count.h"

namespace starling::gossip {

class Rounds : public RoundCount {
 public:
  struct Edge {
    PeerId partner;
    float weight = 0;  // W_ij
    bool own = false;  // this peer begins the exchange, unless the partner has asked for it
    enum class State : std::uint8_t { waiting, under_way, over } state = State::waiting;
    std::uint64_t answered = 0;  // the exchange under way, if the partner began it
  };

  bool is_open() const { return open_; }
  // A neighbor may be ahead by one round, and by `lead` more if the topology varies in time.
  // REQUIRES: begin() was called, !is_open().
  void open(std::vector<Edge> edges, std::uint64_t lead = 0);
  void close() { open_ = false; }
  // The round that this peer is in, or would begin next: offers of earlier ones are rejected.
  std::uint64_t expected() const { return open_ ? current() : next(); }

  // The edges of the open round.
  const std::vector<Edge>& edges() const { return edges_; }
  Edge* edge(PeerId partner);  // null if there is none
  Edge* next_own();            // one whose exchange this peer is to begin; null if there is none
  // Whether nothing is under way and nobody is waited for.
  bool all_over() const;

  bool in_step(PeerId partner) const;
  // The exchange with this partner completed or failed.
  enum class Met : std::uint8_t { completed, failed };
  void meet(PeerId partner, Met how);
  // This partner will come in that round.
  void comes_in(PeerId partner, std::uint64_t round);
  // No partner is in step any more.
  void lose_step() { in_step_.clear(); }

  // What to do with an offer now. A partner that offers a later round has passed over this peer in this one.
  Verdict judge(const Offer& offer);
  void hold(const Offer& offer) { held_.push_back(offer); }
  // Drops a held offer; false if there is none.
  bool withdraw(PeerId from, std::uint64_t exchange);
  std::optional<Offer> held_of(PeerId from) const;
  // Removes and returns a held offer that need not be held any longer.
  std::optional<Offer> take_ripe();
  // Removes and returns any held offer.
  std::optional<Offer> take_any();

 private:
  bool open_ = false;
  std::vector<Edge> edges_;
  std::vector<Offer> held_;  // oldest first, one for each partner
  struct InStep {
    PeerId partner;
    std::uint64_t from = 0;  // the first round in which it is awaited
  };
  std::vector<InStep> in_step_;
};

}  // namespace starling::gossip

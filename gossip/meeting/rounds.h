// Rounds and pushes of a peer, and what to do with the offers of others: held, accepted or rejected by their
// round. Rounds belong to rules in lock-step, Clocks to bounded staleness.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

// An exchange that another peer offers to begin, and what is to become of it.
struct Offer {
  PeerId from;
  std::uint64_t exchange = 0;
  std::uint64_t round = 0;  // the sender's, where the rule counts rounds or pushes
};

enum class Verdict : std::uint8_t { accept, hold, reject };

// Offers that are answered later, oldest first.
class HeldOffers {
 public:
  void hold(const Offer& offer) { held_.push_back(offer); }
  // Drops a held offer; false if there is none.
  bool withdraw(PeerId from, std::uint64_t exchange) {
    return std::erase_if(held_, [&](const Offer& it) { return it.from == from && it.exchange == exchange; });
  }
  bool holds(PeerId from, std::uint64_t round) const {
    return std::ranges::any_of(held_, [&](const Offer& it) { return it.from == from && it.round == round; });
  }
  bool holds_any() const { return !held_.empty(); }
  bool holds_of(PeerId from) const { return std::ranges::find(held_, from, &Offer::from) != held_.end(); }
  // Each of these removes and returns a held offer. A peer makes one offer at a time: if it makes another, it
  // has given up the held one.
  std::optional<Offer> take_held_of(PeerId from) {
    return take([&](const Offer& it) { return it.from == from; });
  }
  std::optional<Offer> take_any() {
    return take([](const Offer&) { return true; });
  }

 protected:
  template <class Fits>
  std::optional<Offer> take(Fits fits) {
    const auto found = std::ranges::find_if(held_, fits);
    if (found == held_.end()) return std::nullopt;
    const Offer offer = *found;
    held_.erase(found);
    return offer;
  }

 private:
  std::vector<Offer> held_;
};

// The number of a peer's round: a logical clock. Peers do not agree on when a round begins. A peer that was
// left behind (it joined late, was cut off, or is slow and nobody waits for it) gets the number of a later
// round from an offer or a rejection, and its next round has that number.
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
// one. It stops as soon as they offer a later round. It waits for nobody that let it wait too long lately
// (waiting.h): such a partner takes part in the rounds that it is in time for.
//
// Peers with different views compute different links, and one may await an offer that the other will never
// make. A peer that has waited for a moment therefore asks: it makes the offer itself. The partner rejects it
// if it is beyond that round or has no such link in it, and is then not awaited before the round that it
// names; in an earlier round it holds the offer, and answers it when it gets there instead of making its own.
// If two offers cross, the lower id's is answered and the other withdrawn. If the lower id's offer was lost,
// it makes no progress, and after a moment the other one is answered. After asking, a peer waits only
// for peers in earlier rounds, so no cycle of waiting peers can form.
class Rounds : public RoundCount, public HeldOffers {
 public:
  struct Edge {
    PeerId partner;
    float weight = 0;  // W_ij
    bool own = false;  // this peer begins the exchange, unless the partner has asked for it
    enum class State : std::uint8_t { waiting, under_way, over } state = State::waiting;
    std::uint64_t answered = 0;  // the exchange under way, if the partner began it
    bool awaited = true;         // false: the round may end without this partner (waiting.h)
  };

  bool is_open() const { return open_; }
  // A neighbor may be ahead by one round, and by `lead` more if the topology varies in time.
  // REQUIRES: begin() was called, !is_open().
  void open(std::vector<Edge> edges, std::uint64_t lead) {
    STARLING_CHECK(!open_ && current() > 0);
    open_ = true;
    edges_ = std::move(edges);
    lead_ = lead;
  }
  void close() { open_ = false; }
  // The round that this peer is in, or would begin next: offers of earlier ones are rejected.
  std::uint64_t expected() const { return open_ ? current() : next(); }

  // The edges of the open round.
  const std::vector<Edge>& edges() const { return edges_; }
  // Null if there is none.
  Edge* edge(PeerId partner) {
    const auto found = std::ranges::find(edges_, partner, &Edge::partner);
    return open_ && found != edges_.end() ? &*found : nullptr;
  }
  // One whose exchange this peer is to begin; null if there is none
  Edge* next_own() {
    const auto found = std::ranges::find_if(
        edges_, [](const Edge& edge) { return edge.own && edge.state == Edge::State::waiting; });
    return open_ && found != edges_.end() ? &*found : nullptr;
  }
  // Whether nothing is under way and nobody is waited for.
  bool all_over() const {
    return std::ranges::all_of(edges_, [this](const Edge& edge) {
      return edge.state == Edge::State::over ||
             (edge.state == Edge::State::waiting && !edge.own && !awaits(edge));
    });
  }

  // Whether the round waits for this partner's offer.
  bool awaits(const Edge& edge) const {
    const auto found = in_step_.find(edge.partner);
    return edge.awaited && found != in_step_.end() && found->second <= current();
  }
  // The exchange with this partner completed or failed.
  enum class Met : std::uint8_t { completed, failed };
  void meet(PeerId partner, Met how) {
    if (Edge* const edge = this->edge(partner)) edge->state = Edge::State::over;
    if (how == Met::completed)
      comes_in(partner, 0);
    else
      in_step_.erase(partner);
  }
  // This partner will come in that round.
  void comes_in(PeerId partner, std::uint64_t round) { in_step_[partner] = round; }
  // No partner is in step any more.
  void lose_step() { in_step_.clear(); }

  // What to do with an offer now. A partner that offers a later round has passed over this peer in this one.
  Verdict judge(const Offer& offer) {
    if (offer.round > current() + kAheadMost) return Verdict::reject;
    if (offer.round < expected()) {  // it comes after its next step; else it would stay behind forever
      comes_in(offer.from, 0);
      return Verdict::reject;
    }
    const Edge* const edge = this->edge(offer.from);
    const bool waiting = edge != nullptr && edge->state == Edge::State::waiting;
    if (open_ && offer.round == current()) {
      if (waiting) return Verdict::accept;
      // This peer's own offer is on its way.
      const bool crossing = edge != nullptr && edge->state == Edge::State::under_way && edge->answered == 0;
      return crossing ? Verdict::hold : Verdict::reject;
    }
    if (waiting) meet(offer.from, Met::failed);
    left_behind(offer.round);
    return Verdict::hold;
  }
  // Removes and returns a held offer that need not be held any longer.
  std::optional<Offer> take_ripe() {
    return take([this](const Offer& it) { return judge(it) != Verdict::hold; });
  }

 private:
  bool open_ = false;
  std::vector<Edge> edges_;
  std::map<PeerId, std::uint64_t> in_step_;  // the first round in which each is awaited
};

// Bounded staleness at a server (SSP: Ho et al., "More effective distributed ML via a stale synchronous
// parallel parameter server", NIPS 2013). A worker's clock counts its pushes. Each push is an offer that
// carries its number, and no worker makes the next push before the last is answered. A server answers push c
// once every worker has begun push c + 1 - s. So no worker ever begins a push that is more than s ahead of
// the slowest worker's latest.
//
// A new worker starts at the slowest clock; if it offers less, the rejection carries that number. A worker
// that failed, stopped training or was passed over (waiting.h) holds nobody back. One that comes back is new.
class Clocks : public HeldOffers {
 public:
  explicit Clocks(std::uint64_t staleness) : staleness_(staleness) {}

  // This worker trains: it is waited for from now on.
  void meet(Instant now, PeerId worker) { clocks_.try_emplace(worker, Clock{slowest(), now}); }
  // Workers that do not train any more are not waited for.
  template <class Trains>
  void keep(Trains trains) {
    std::erase_if(clocks_, [&](const auto& entry) { return !trains(entry.first); });
  }

  // The least number of any worker's latest push; 0 without workers.
  std::uint64_t slowest() const {
    std::uint64_t least = clocks_.empty() ? 0 : UINT64_MAX;
    for (const auto& [worker, clock] : clocks_) least = std::min(least, clock.number);
    return least;
  }
  // The workers that hold others back without a push of their own, with the time of the latest sign of work.
  // A push that is held works; one that is repeated is no new sign.
  std::map<PeerId, Instant> silent() const {
    std::map<PeerId, Instant> silent;
    if (!holds_any()) return silent;
    for (const auto& [worker, clock] : clocks_)
      if (clock.number == slowest() && !holds_of(worker)) silent[worker] = clock.since;
    return silent;
  }
  // This worker is not waited for any more.
  void pass_over(PeerId worker) { clocks_.erase(worker); }
  // This peer woke `late` after its deadline: workers get that much more time.
  void slept(Duration late) {
    for (auto& [worker, clock] : clocks_) clock.since = clock.since + late;
  }
  // The least number that this worker may offer.
  std::uint64_t of(PeerId worker) const {
    const auto found = clocks_.find(worker);
    return found == clocks_.end() ? 0 : found->second.number;
  }

  // What to do with a push now. It is rejected if it is behind of(its worker). Peers that do not train are
  // always accepted.
  Verdict judge(const Offer& offer) {
    const auto found = clocks_.find(offer.from);
    if (found == clocks_.end()) return Verdict::accept;
    if (offer.round < found->second.number) return Verdict::reject;
    found->second.number = offer.round;
    return slowest() + staleness_ > offer.round ? Verdict::accept : Verdict::hold;
  }
  // A push was accepted.
  void accepted(Instant now, const Offer& offer) {
    const auto found = clocks_.find(offer.from);
    if (found == clocks_.end() || found->second.accepted >= offer.round) return;
    found->second.accepted = offer.round;
    found->second.since = now;
  }

  std::optional<Offer> take_ripe() {  // one that need not be held any longer
    return take([this](const Offer& it) { return judge(it) != Verdict::hold; });
  }

 private:
  struct Clock {
    std::uint64_t number = 0;    // of the latest push that the worker began
    Instant since;               // when one was accepted for the first time, or the worker was met
    std::uint64_t accepted = 0;  // the number of that one
  };

  std::uint64_t staleness_;
  std::map<PeerId, Clock> clocks_;
};

}  // namespace starling::gossip

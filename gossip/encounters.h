// When, with whom and on what terms a peer exchanges: the part of a Peer that depends on the run's rule.
// There is one class for each way to meet (rules/rule.h):
//
//   NoEncounters   the rule never exchanges, or the run's rules are not known yet
//   Whenever       one partner when an exchange is due, with or without outer rounds
//   LockStep       rounds with a barrier between neighbors
//   Served         parameter servers
//
// The base class has what several of them need: the pace, the terms, the default answers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gossip/ending.h"
#include "gossip/exchanges.h"
#include "gossip/pacing.h"

namespace starling::gossip {

class Encounters {
 public:
  virtual ~Encounters() = default;

  // Training begins. Appends StartTraining unless the peer has to wait or the run's end is reached.
  virtual void start(std::vector<Action>& out);
  // A new replica is in place.
  void restart() { pacer_.start(run_.now, run_.steps()); }
  // Begins what is due.
  virtual void tick(std::vector<Action>&) {}
  // REQUIRES: tick() was called at this instant.
  virtual Instant next_deadline() const { return kNever; }

  // ---- this peer's own exchanges ----
  // Whether one should begin now.
  virtual bool due() const { return false; }
  virtual void advanced(const ExchangeAdvanced& advanced) { exchanges_.advanced(advanced); }
  virtual void ended(const ExchangeEnded& ended, std::vector<Action>& out) { exchanges_.ended(ended, out); }
  // Aborts one. REQUIRES: it is in flight.
  virtual void give_up(std::uint64_t exchange, std::vector<Action>& out);

  // ---- others' ----
  virtual void offered(const Offer& offer, std::vector<Action>& out) = 0;
  virtual void answer_ended(const AnswerEnded& ended, std::vector<Action>& out) {
    exchanges_.answer_ended(ended, out);
  }

  // ---- the course of the run ----
  virtual bool serves() const { return false; }  // it is a parameter server: it makes no steps
  virtual bool end_reached() const { return ending_.reached(); }
  virtual std::uint64_t exchanges_to_settle() const { return ending_.exchanges_to_settle(); }
  // Settling is complete and nothing is under way.
  virtual bool settled() const { return ending_.settled() && exchanges_.in_flight().empty(); }
  virtual void finish(std::vector<Action>&) {}
  // The replica is lost: nothing of this peer continues.
  virtual void replica_lost(std::vector<Action>&) {}
  // run.rules has another topology. An exchange in flight continues.
  virtual void topology_changed() {}
  virtual std::uint64_t round() const { return 0; }  // the latest that began

 protected:
  Encounters(RunState& run, Ending& ending, Exchanges& exchanges, Pace pace)
      : run_(run), ending_(ending), exchanges_(exchanges), pacer_(pace, run.stream(Stream::pace)) {}

  // Rejects an offer that no rule accepts, and returns whether it did.
  bool turn_away(const Offer& offer, std::vector<Action>& out) const;
  // The round that a rejection for this reason carries.
  virtual std::uint64_t round_for(const Offer&, wire::RefusalReason) const { return 0; }
  void reject(const Offer& offer, wire::RefusalReason reason, std::vector<Action>& out) const {
    exchanges_.reject(offer, reason, round_for(offer, reason), out);
  }
  // An own exchange with this partner failed in any way.
  virtual void failed(PeerId partner);

  // Whether an exchange or a round is due: by the pace while training, one after the other while settling.
  bool moment_is_due() const;
  // When that may change by time. REQUIRES: !moment_is_due().
  Instant next_moment() const;
  void hold_off() { pacer_.hold_off(run_.now, run_.options.exchange_hold_off); }
  Terms terms_with(PeerId partner) const;

  RunState& run_;
  Ending& ending_;
  Exchanges& exchanges_;
  Pacer pacer_;
};

class NoEncounters : public Encounters {
 public:
  NoEncounters(RunState& run, Ending& ending, Exchanges& exchanges)
      : Encounters(run, ending, exchanges, Pace{}) {}
  void offered(const Offer& offer, std::vector<Action>& out) override {
    reject(offer, wire::RefusalReason::not_ready, out);
  }
  std::uint64_t exchanges_to_settle() const override { return 0; }
};

// For the run's rule. REQUIRES: run.rules.
std::unique_ptr<Encounters> encounters_for(RunState& run, Ending& ending, Exchanges& exchanges);

}  // namespace starling::gossip

// When, with whom and on what terms a peer exchanges: the part of a Peer that depends on the run's rule.
// There is one class for each way to meet (wire/rules/rule.h), and Peer holds one of them in a variant:
//
//   NoEncounters   the rule never exchanges, or the run's rules are not known yet
//   Whenever       one partner when an exchange is due
//   LockStep       rounds with a barrier between neighbors
//   Served         parameter servers
//
// Their base Encounters has the pace, the terms, and the answer of a class that does not define its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gossip/ending.h"
#include "gossip/meeting/exchanges.h"
#include "gossip/meeting/pacing.h"
#include "gossip/meeting/partner.h"
#include "gossip/meeting/roster.h"
#include "gossip/meeting/rounds.h"
#include "gossip/meeting/waiting.h"

namespace starling::gossip {

class Encounters {
 public:
  // Training begins. Appends StartTraining unless the peer has to wait or the run's end is reached.
  void start(Actions& out) {
    restart();
    if (!end_reached()) out.push_back(StartTraining{});
  }
  // A new replica is in place.
  void restart() { pacer_.taken(run_.now, run_.steps()); }
  // Begins what is due.
  void tick(Actions&) {}
  // REQUIRES: tick() was called at this instant.
  Instant next_deadline() const { return kNever; }
  // This peer woke `late` after its deadline: partners that it waits for get that much more time.
  void slept(Duration /*late*/) {}

  // ---- this peer's own exchanges ----
  // Whether one should begin now.
  bool due() const { return false; }
  void advanced(const ExchangeAdvanced& advanced) { exchanges_.advanced(advanced); }
  void ended(const ExchangeEnded& ended, Actions& out) { exchanges_.ended(ended, out); }
  // Aborts one. REQUIRES: it is in flight.
  void give_up(std::uint64_t exchange, Actions& out) { failed(exchanges_.abort(exchange, out).partner); }

  // ---- others' ----
  void offered(const Offer& offer, Actions& out) {
    exchanges_.reject(offer, wire::RefusalReason::not_ready, 0, out);
  }
  void answer_ended(const AnswerEnded& ended, Actions& out) { exchanges_.answer_ended(ended, out); }

  // ---- the course of the run ----
  bool end_reached() const { return ending_.reached(); }
  std::uint64_t exchanges_to_settle() const { return ending_.exchanges_to_settle(); }
  // Settling is complete and nothing is under way.
  bool settled() const { return ending_.settled() && exchanges_.in_flight().empty(); }
  void finish(Actions&) {}
  // The replica is lost: nothing of this peer continues.
  void replica_lost(Actions&) {}
  // run.rules has another topology. An exchange in flight continues.
  void topology_changed() {}
  std::uint64_t round() const { return 0; }  // the latest that began

 protected:
  Encounters(RunState& run, Ending& ending, Exchanges& exchanges, Pace pace)
      : run_(run), ending_(ending), exchanges_(exchanges), pacer_(pace, run.stream(RandomStream::pace)) {}

  // Why no rule accepts this offer now; nullopt: the rule decides.
  std::optional<wire::RefusalReason> objection_to(const Offer& offer) const;
  // An own exchange with this partner failed in any way.
  void failed(PeerId partner) {
    run_.membership.exchange_aborted(run_.now, partner);
    hold_off();
  }
  // Whether an exchange or a round is due: by the pace while training, one after the other while settling.
  bool moment_is_due() const {
    if (run_.phase() == wire::Phase::training) return pacer_.due(run_.now, run_.steps());
    return ending_.is_settling() && pacer_.not_before() <= run_.now;
  }
  // When that may change by time. REQUIRES: !moment_is_due().
  Instant next_moment() const;
  void hold_off() { pacer_.hold_off(run_.now, run_.options.exchange_hold_off); }
  // This partner let the peer wait for too long.
  void pass_over(RoundWaits& waiting, PeerId partner, Duration waited, Actions& out) const;
  Terms terms_with(PeerId partner, std::uint64_t round) const;

  RunState& run_;
  Ending& ending_;
  Exchanges& exchanges_;
  Pacer pacer_;
};

class NoEncounters : public Encounters {
 public:
  NoEncounters(RunState& run, Ending& ending, Exchanges& exchanges)
      : Encounters(run, ending, exchanges, Pace{}) {}
  std::uint64_t exchanges_to_settle() const { return 0; }
};

// Rules without a barrier: when an exchange is due, the peer picks one partner, and a partner answers at
// once. With gossip.fragments an exchange covers one fragment of the arena; a peer's own exchanges take them
// in turn.
class Whenever : public Encounters {
 public:
  Whenever(RunState& run, Ending& ending, Exchanges& exchanges);

  void start(Actions& out) {
    acceptance_.start(run_.now);
    Encounters::start(out);
  }
  void tick(Actions& out);
  Instant next_deadline() const { return exchanges_.in_flight().empty() ? next_moment() : kNever; }
  bool due() const {
    if (run_.diverged || !exchanges_.in_flight().empty()) return false;
    return run_.leaving ? ending_.last_exchange_due() : moment_is_due() && !ending_.awaits_others();
  }
  void ended(const ExchangeEnded& ended, Actions& out);
  void give_up(std::uint64_t exchange, Actions& out);
  void offered(const Offer& offer, Actions& out);
  void answer_ended(const AnswerEnded& ended, Actions& out) {
    if (!exchanges_.answer_ended(ended, out)) return;
    if (ended.outcome == Outcome::completed) partners_.met(run_.membership, ended.from, std::nullopt);
  }
  // Settling brings every fragment together.
  std::uint64_t exchanges_to_settle() const { return fragments_ * ending_.exchanges_to_settle(); }
  void topology_changed() { partners_.follow(run_.rules->topology); }

 private:
  Terms terms_of(PeerId partner, std::uint64_t turn) const;
  std::optional<PeerId> choose();
  bool is_newcomer(PeerId member) const;
  bool comes_too_often(PeerId partner);
  void reject(const Offer& offer, wire::RefusalReason reason, Actions& out) const {
    exchanges_.reject(offer, reason, round(), out);
  }

  std::uint32_t fragments_;
  std::uint64_t turn_ = 0;  // own exchanges begun; with one fragment there are no turns
  PartnerChooser partners_;
  Acceptance acceptance_;
};

// Rules with a barrier: a round is an exchange with every neighbor, and no step is made until it is over
// (gossip/meeting/rounds.h). Training pauses for the round.
class LockStep : public Encounters {
 public:
  LockStep(RunState& run, Ending& ending, Exchanges& exchanges);

  // All members that train now begin with this peer, so it waits for them from the first round on.
  void begin_in_step();
  void tick(Actions& out);
  Instant next_deadline() const {
    if (rounds_.is_open()) return std::min(deadline_, doubt_);
    return exchanges_.in_flight().empty() ? next_moment() : kNever;
  }
  void slept(Duration late) {
    waiting_.slept(late);
    if (rounds_.is_open()) deadline_ = deadline_ + late;
  }
  void advanced(const ExchangeAdvanced& advanced);
  void ended(const ExchangeEnded& ended, Actions& out);
  void give_up(std::uint64_t exchange, Actions& out) { failed(exchanges_.abort(exchange, out).partner, out); }
  void offered(const Offer& offer, Actions& out);
  void answer_ended(const AnswerEnded& ended, Actions& out);
  bool settled() const { return Encounters::settled() && !rounds_.is_open(); }
  void finish(Actions& out) { abandon_round(out); }
  void replica_lost(Actions& out) {
    abandon_round(out);
    rounds_.lose_step();
  }
  void topology_changed() {
    partners_.follow(run_.rules->topology);
    version_ = kNoVersion;  // an open round compares its links again
  }
  std::uint64_t round() const { return rounds_.current(); }

 private:
  void open_round(Actions& out);
  std::vector<Rounds::Edge> links();
  void begin_own(Actions& out);
  InFlight& begin_along(Rounds::Edge& edge, Actions& out);
  void pass_over_the_absent(Actions& out);
  bool will_come(const Rounds::Edge& edge, const InFlight* own) const;
  void miss(PeerId partner, Actions& out);
  void met(PeerId partner);
  void follow_links();
  void accept(const Offer& offer, Actions& out);
  void reject(const Offer& offer, wire::RefusalReason reason, Actions& out) const {
    exchanges_.reject(offer, reason, reason == wire::RefusalReason::out_of_step ? rounds_.expected() : 0,
                      out);
  }
  void answer_held(Actions& out);
  void withdraw_asks(Actions& out);
  void close_round(Actions& out);
  void abandon_round(Actions& out);
  void failed(PeerId partner, Actions& out);

  PartnerChooser partners_;
  Rounds rounds_;
  RoundWaits waiting_;
  Instant deadline_ = kNever;  // neighbors that have not come by then are passed over
  Instant doubt_ = kNever;     // when the awaited neighbors are probed
  static constexpr std::uint64_t kNoVersion = UINT64_MAX;
  std::uint64_t version_ = kNoVersion;  // of the membership that the round's links were compared with
  bool settles_ = false;                // the round began after training ended
  bool met_anyone_ = false;
  bool passed_over_ = false;  // a partner, in this round
};

// Rules with parameter servers (gossip/rules.h). A push is an exchange with every server, each of its own
// part, all at once; a worker pushes when its pace says so, a rack's server when its workers have. Where
// staleness is bounded, servers hold pushes of workers that are too far ahead (gossip/meeting/rounds.h), and
// a worker pauses while its push is held.
class Served : public Encounters {
 public:
  Served(RunState& run, Ending& ending, Exchanges& exchanges);

  void start(Actions& out);
  void tick(Actions& out);
  Instant next_deadline() const {
    return exchanges_.in_flight().empty() && push_is_due() ? next_moment() : next_silence();
  }
  void slept(Duration late) {
    if (clocks_) clocks_->slept(late);
  }
  bool due() const;
  void ended(const ExchangeEnded& ended, Actions& out);
  void give_up(std::uint64_t exchange, Actions& out) { failed(exchanges_.abort(exchange, out).partner); }
  void offered(const Offer& offer, Actions& out);
  void answer_ended(const AnswerEnded& ended, Actions& out) {
    if (clocks_ && clocks_->withdraw(ended.from, ended.exchange)) return;
    if (!exchanges_.answer_ended(ended, out) || ended.outcome != Outcome::completed) return;
    ++pushes_taken_;
    waiting_.worked(run_.now, ended.from);
  }
  bool end_reached() const {
    return ending_.reached() || (roster_.serves() && run_.rules->end.steps && workers_reached_end());
  }
  // The last push carries what was learned since the one before; servers at the top push to nobody.
  std::uint64_t exchanges_to_settle() const { return roster_.role().kind == Role::Kind::shard ? 0 : 1; }
  void replica_lost(Actions&) { paused_ = false; }  // training resumes with the copy
  std::uint64_t round() const { return pushes_.current(); }

 private:
  void refresh_roster();
  bool trains(PeerId worker) const;
  bool workers_reached_end() const;
  void start_when_served(Actions& out);
  void start_training(Actions& out);

  bool push_is_due() const;
  // Without bounded staleness each part is pushed at its server's pace: a slow or dead server does not delay
  // the others.
  bool parts_apart() const {
    return !run_.rule().bounded && run_.phase() == wire::Phase::training && !run_.leaving;
  }
  void push(Actions& out);
  void push_to(const Roster::Target& target, Actions& out);
  void widen_push(Actions& out);
  void close_push();
  void failed(PeerId server) {
    Encounters::failed(server);
    std::erase(pushed_to_, server);
  }
  void pause_or_resume(Actions& out);

  // When a silent worker will be passed over.
  Instant next_silence() const {
    Instant next = kNever;
    if (!clocks_) return next;
    for (const auto& [worker, since] : clocks_->silent()) next = std::min(next, since + waiting_.limit());
    return next;
  }
  void pass_over_the_silent(Actions& out);
  void answer_held(Actions& out);
  void reject(const Offer& offer, wire::RefusalReason reason, Actions& out) const {
    const bool behind = clocks_ && reason == wire::RefusalReason::out_of_step;
    exchanges_.reject(offer, reason, behind ? clocks_->of(offer.from) : 0, out);
  }
  Terms terms_of_serving() const;

  Roster roster_;
  RoundCount pushes_;             // a push's number, a worker's clock
  std::optional<Clocks> clocks_;  // of a server, where staleness is bounded
  RoundWaits waiting_;            // its rounds: the pushes of the slowest worker
  std::uint64_t slowest_ = 0;     // the number of the latest one
  bool awaits_servers_ = false;   // training starts when all servers are there
  std::string missing_;           // the last notice about them

  // The push under way.
  bool open_ = false;
  bool went_through_ = false;       // at least one part of it
  std::vector<PeerId> pushed_to_;   // without those that failed
  bool paused_ = false;             // training waits for it
  std::uint64_t pushes_taken_ = 0;  // by a rack's server since its own last push
};

}  // namespace starling::gossip

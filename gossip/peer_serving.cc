// The part of a Peer that pushes to parameter servers, or is one.

#include <algorithm>

#include "gossip/peer.h"

namespace starling::gossip {

using wire::Phase;
using wire::RefusalReason;

void Peer::refresh_roster() {
  if (!roster_ || !roster_->refresh(membership_) || !clocks_) return;
  clocks_->keep([this](PeerId worker) { return trains(worker); });
  for (const PeerId worker : roster_->training()) clocks_->meet(worker);
}

// Not settling yet, nor gone. What pushes has come further than to join, whatever has been heard.
bool Peer::trains(PeerId worker) const {
  const Record* const record = membership_.find(worker);
  return record != nullptr && record->is_live() && record->member.phase <= Phase::training &&
         role_of(record->member.name, rules_->servers).kind == Role::Kind::worker;
}

// A worker makes no step before there is a server for each part: one that came later would begin with what
// others have learned and not pushed yet, and get it from them once more.
void Peer::start_when_served(std::vector<Action>& out) {
  if (!awaits_servers_ || phase() != Phase::training || leave_by_ != kNever) return;
  if (const auto missing = roster_->missing()) {
    if (*missing != told_missing_) out.push_back(Notice{Notice::What::waiting, {}, *missing});
    told_missing_ = *missing;
    return;
  }
  awaits_servers_ = false;
  pacer_->start(now_, membership_.self().steps);
  if (!end_reached()) out.push_back(StartTraining{});
}

// ---- a worker, or a rack's server: pushing ----

// Besides the pace: a worker's is all there is. A rack's server pushes when as many pushes as there are
// workers have come, where the pace counts steps, which it makes none of; and at the end when the last of
// them is done.
bool Peer::push_is_due() const {
  if (awaits_servers_) return false;
  switch (roster_->role().kind) {
    case Role::Kind::worker:
      return true;
    case Role::Kind::shard:
      return false;
    case Role::Kind::rack:
      break;
  }
  if (phase() == Phase::settling) return !roster_->anyone_unfinished(membership_);
  return rules_->pace.kind != Pace::Kind::steps || pushes_taken_ >= roster_->pushers();
}

// Where nobody is held back, the parts of a model are pushed each at its server's pace: one that is slow to
// answer, or gone, costs the others nothing.
bool Peer::parts_apart() const {
  return rule().meeting == Meeting::served && !rule().bounded && phase() == Phase::training &&
         leave_by_ == kNever;
}

// One exchange with each server that has no other of this peer's under way, all at once.
void Peer::push(std::vector<Action>& out) {
  std::vector<Roster::Target> targets = roster_->targets(now_, membership_);
  std::erase_if(targets, [this](const Roster::Target& it) { return in_flight_with(it.server) != nullptr; });
  if (targets.empty() && !in_flight_.empty()) return;
  if (leave_by_ != kNever) last_exchange_begun_ = true;
  if (targets.empty()) {
    pacer_->hold_off(now_, options_.exchange_hold_off);
    return;
  }
  pacer_->taken(now_, membership_.self().steps);
  pushes_taken_ = 0;
  if (!push_open_) {
    push_open_ = true;
    push_went_through_ = false;
    pushed_to_.clear();
  }
  for (const Roster::Target& target : targets) push_to(target, out);
}

void Peer::push_to(const Roster::Target& target, std::vector<Action>& out) {
  Terms terms;
  terms.round = rounds_.next();
  terms.part = target.part;
  const Duration limit = rule().lets_wait() ? options_.round_limit : patience_.limit(target.server);
  begin_exchange(target.server, terms, now_ + limit, out);
  pushed_to_.push_back(target.server);
}

// A server that has come since it began takes part in a push that may have to wait: it would hold others back
// for a worker that in its turn waits, at a server that they have not pushed to, for them.
void Peer::widen_push(std::vector<Action>& out) {
  if (!rule().bounded || !push_open_) return;
  for (const Roster::Target& target : roster_->targets(now_, membership_)) {
    if (std::find(pushed_to_.begin(), pushed_to_.end(), target.server) == pushed_to_.end())
      push_to(target, out);
  }
}

// A part of a push is over.
void Peer::push_part_ended(const InFlight& exchange, const ExchangeEnded& ended, std::vector<Action>& out) {
  switch (ended.outcome) {
    case Outcome::completed:
      ++exchanges_.completed;
      membership_.exchange_completed(exchange.partner);
      if (exchange.advanced || !rule().lets_wait())
        patience_.went_well(exchange.partner, std::max(exchange.silence, now_ - exchange.heard));
      push_went_through_ = true;
      return;
    case Outcome::rejected:
      ++exchanges_.rejected;
      if (ended.round > rounds_.current()) return rounds_.left_behind(ended.round);  // it goes on from there
      break;
    case Outcome::poisoned:
      membership_.poisoned_by(now_, exchange.partner, out);
      [[fallthrough]];
    case Outcome::aborted:
      ++exchanges_.aborted;
      break;
  }
  last_exchange_begun_ = false;
  came_to_nothing(exchange.partner);
  std::erase(pushed_to_, exchange.partner);
}

// Once all its parts are over. One of which nothing went through is made again, with the same number.
void Peer::close_push() {
  if (!push_open_ || !in_flight_.empty()) return;
  push_open_ = false;
  if (!push_went_through_) return;
  rounds_.begin();
  if (phase() == Phase::settling && settling_left_ > 0) --settling_left_;
}

// Where staleness is bounded, no step is made from when a push is due until the one before has been answered.
void Peer::keep_staleness(std::vector<Action>& out) {
  if (clocks_) answer_pushes_held(out);
  if (!rule().bounded || serves() || diverged_) return;
  widen_push(out);
  const bool trains = phase() == Phase::training && leave_by_ == kNever;
  const bool waits = trains && push_open_ && pacer_->due(now_, membership_.self().steps);
  if (waits == waits_for_push_) return;
  waits_for_push_ = waits;
  if (waits) {
    out.push_back(PauseTraining{});
  } else if (trains) {
    out.push_back(ResumeTraining{});
  }
}

// ---- a server: taking pushes ----

std::optional<RefusalReason> Peer::reason_to_refuse_push(const Rounds::Offer& offer) {
  refresh_roster();
  // One of each member: bounded without a number.
  if (!serves() || membership_.find(offer.from) == nullptr) return RefusalReason::not_ready;
  if (offer.round > rounds_.current() + Rounds::kAheadMost) return RefusalReason::out_of_step;
  return std::nullopt;
}

void Peer::take_push(const Rounds::Offer& offer, std::vector<Action>& out) {
  // An earlier one of the same peer has come to nothing there.
  std::erase_if(answers_,
                [&](const Answering& it) { return it.from == offer.from && it.exchange < offer.exchange; });
  if (!clocks_) return accept(offer, out);
  if (trains(offer.from)) clocks_->meet(offer.from);
  if (const auto earlier = clocks_->take_held_of(offer.from))
    refuse(*earlier, RefusalReason::out_of_step, out);
  clocks_->hold(offer);  // until keep_staleness(), in this same step
}

void Peer::answer_pushes_held(std::vector<Action>& out) {
  if (diverged_ || leave_by_ != kNever) {
    while (const auto offer = clocks_->any_held()) refuse(*offer, RefusalReason::not_ready, out);
    return;
  }
  while (const auto offer = clocks_->ripe()) {
    if (clocks_->judge(*offer) == Clocks::Verdict::accept) {
      accept(*offer, out);
    } else {
      refuse(*offer, RefusalReason::out_of_step, out);
    }
  }
}

// Each of n workers' updates counts for one nth: together they go as far as one of them would alone, as they
// do under the other rules.
Terms Peer::terms_of_serving() const {
  Terms terms;
  terms.round = rounds_.current();
  terms.part = roster_->own_part();
  terms.weight =
      static_cast<float>(rules_->servers.rate.value_or(1.0 / static_cast<double>(roster_->pushers())));
  return terms;
}

// Of a run that ends by each worker's steps.
bool Peer::workers_reached_end() const {
  bool any = false;
  for (const Record& record : membership_.others()) {
    if (role_of(record.member.name, rules_->servers).kind != Role::Kind::worker || !record.is_live())
      continue;
    if (record.member.phase <= Phase::training) return false;
    any = true;
  }
  return any;
}

}  // namespace starling::gossip

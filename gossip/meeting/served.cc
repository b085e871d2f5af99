#include "gossip/meeting/encounters.h"

#include <algorithm>

namespace starling::gossip {

using wire::Phase;
using wire::RefusalReason;

Served::Served(RunState& run, Ending& ending, Exchanges& exchanges)
    : Encounters(run, ending, exchanges, run.rules->pace),
      roster_(run.rules->servers),
      waiting_(run.options.round_limit, run.options.membership.guards.pauses) {
  if (run.rule().bounded && role_of(run.options.name, run.rules->servers).kind != Role::Kind::worker)
    clocks_.emplace(run.rules->servers.staleness);
  refresh_roster();
}

void Served::tick(Actions& out) {
  refresh_roster();
  while (const auto contest = roster_.contested(run_.membership))
    out.push_back(Notice{Notice::What::contested, contest->id, contest->text});
  start_when_served(out);
  close_push();
  const bool settles = run_.phase() == Phase::settling && !run_.leaving;
  if (due() && (!settles || ending_.try_settling(out))) push(out);
  if (clocks_) {
    pass_over_the_silent(out);
    answer_held(out);
  }
  pause_or_resume(out);
}

// ---- members and their roles ----

void Served::refresh_roster() {
  if (!roster_.refresh(run_.membership) || !clocks_) return;
  clocks_->keep([this](PeerId worker) { return trains(worker); });
}

// A worker that pushes has finished joining, even if this peer's view is older.
bool Served::trains(PeerId worker) const {
  const Record* const record = run_.membership.find(worker);
  return record != nullptr && record->is_live() && record->member.phase <= Phase::training &&
         role_of(record->member.name, run_.rules->servers).kind == Role::Kind::worker;
}

void Served::start(Actions& out) {
  if (roster_.serves()) return start_training(out);
  restart();
  awaits_servers_ = true;
  start_when_served(out);
}

// A worker makes no step before there is a server for each part. A server that came later would start from a
// replica that contains updates which workers have not pushed yet, and get them a second time.
void Served::start_when_served(Actions& out) {
  if (!awaits_servers_ || run_.phase() != Phase::training || run_.leaving) return;
  if (const auto missing = roster_.missing()) {
    if (*missing != missing_) out.push_back(Notice{Notice::What::waiting, {}, *missing});
    missing_ = *missing;
    return;
  }
  awaits_servers_ = false;
  start_training(out);
}

void Served::start_training(Actions& out) {
  restart();
  if (!end_reached()) out.push_back(StartTraining{!roster_.serves()});
}

// In a run that ends after a number of steps, which servers do not make.
bool Served::workers_reached_end() const {
  bool any = false;
  for (const Record& record : run_.membership.others()) {
    if (role_of(record.member.name, run_.rules->servers).kind != Role::Kind::worker || !record.is_live())
      continue;
    if (record.member.phase <= Phase::training) return false;
    any = true;
  }
  return any;
}

// ---- pushing: a worker, or a rack's server ----

bool Served::due() const {
  if (run_.diverged || !(exchanges_.in_flight().empty() || parts_apart()) || !push_is_due()) return false;
  if (run_.leaving) return ending_.last_exchange_due();
  const bool by_pushes =
      run_.phase() == Phase::training && roster_.serves() && run_.rules->pace.kind == Pace::Kind::steps;
  return by_pushes ? pacer_.not_before() <= run_.now : moment_is_due();
}

// What is needed beside the pace. A rack's server makes no steps: where the pace counts steps, it pushes
// after as many pushes as it has workers. Its last push waits until all its workers have finished.
bool Served::push_is_due() const {
  if (awaits_servers_) return false;
  if (roster_.role().kind != Role::Kind::rack) return !roster_.serves();
  if (run_.phase() == Phase::settling) return !roster_.anyone_unfinished(run_.membership);
  return run_.rules->pace.kind != Pace::Kind::steps || pushes_taken_ >= roster_.pushers();
}

// Pushes to all servers without an exchange in flight.
void Served::push(Actions& out) {
  std::vector<Roster::Target> targets = roster_.targets(run_.now, run_.membership);
  std::erase_if(targets, [this](const Roster::Target& it) { return exchanges_.with(it.server) != nullptr; });
  if (targets.empty() && !exchanges_.in_flight().empty()) return;
  ending_.begin_last_exchange();
  if (targets.empty()) return hold_off();
  pacer_.taken(run_.now, run_.steps());
  pushes_taken_ = 0;
  if (!open_) {
    open_ = true;
    went_through_ = false;
    pushed_to_.clear();
  }
  for (const Roster::Target& target : targets) push_to(target, out);
}

void Served::push_to(const Roster::Target& target, Actions& out) {
  const Duration limit =
      run_.rule().lets_wait() ? run_.options.round_limit : exchanges_.patience().limit(target.server);
  exchanges_.begin(target.server, {.round = pushes_.next(), .part = target.part}, run_.now + limit, out);
  pushed_to_.push_back(target.server);
}

// A server that came after the push began takes part in it if the push may have to wait. Otherwise that
// server would hold the pushes of others back for this worker, which in turn waits for those others at
// another server.
void Served::widen_push(Actions& out) {
  if (!open_) return;
  for (const Roster::Target& target : roster_.targets(run_.now, run_.membership)) {
    if (std::ranges::find(pushed_to_, target.server) == pushed_to_.end()) push_to(target, out);
  }
}

void Served::ended(const ExchangeEnded& ended, Actions& out) {
  const auto exchange = exchanges_.ended(ended, out);
  if (!exchange) return;
  if (ended.outcome == Outcome::completed) {
    went_through_ = true;
    return;
  }
  if (ended.outcome == Outcome::rejected && ended.round > pushes_.current())
    return pushes_.left_behind(ended.round);  // the next push has that number
  ending_.last_exchange_failed();
  failed(exchange->partner);
}

// Closes a push whose parts are all over. If no part went through, it is repeated with the same number.
void Served::close_push() {
  if (!open_ || !exchanges_.in_flight().empty()) return;
  open_ = false;
  if (!went_through_) return;
  pushes_.begin();
  if (run_.phase() == Phase::settling) ending_.exchange_settled();
}

// Where staleness is bounded, a worker makes no step from when a push is due until the one before is over.
void Served::pause_or_resume(Actions& out) {
  if (!run_.rule().bounded || roster_.serves() || run_.diverged) return;
  widen_push(out);
  const bool trains = run_.phase() == Phase::training && !run_.leaving;
  const bool waits = trains && open_ && pacer_.due(run_.now, run_.steps());
  if (waits == paused_) return;
  paused_ = waits;
  if (waits) {
    out.push_back(PauseTraining{});
  } else if (trains) {
    out.push_back(ResumeTraining{});
  }
}

// ---- taking pushes: a server ----

void Served::offered(const Offer& offer, Actions& out) {
  if (const auto why = objection_to(offer)) return reject(offer, *why, out);
  refresh_roster();
  // One push of each member: this bounds the answers.
  if (!roster_.serves() || run_.membership.find(offer.from) == nullptr)
    return reject(offer, RefusalReason::not_ready, out);
  if (offer.round > pushes_.current() + RoundCount::kAheadMost)
    return reject(offer, RefusalReason::out_of_step, out);
  exchanges_.forget_answers_before(offer);  // the worker has given those up
  if (!clocks_) return exchanges_.accept(offer, terms_of_serving(), out);
  if (trains(offer.from) && waiting_.awaits(run_.now, offer.from)) clocks_->meet(run_.now, offer.from);
  if (const auto earlier = clocks_->take_held_of(offer.from))
    reject(*earlier, RefusalReason::out_of_step, out);
  clocks_->hold(offer);  // until the tick of this step
}

// A worker that trains and does not push holds the pushes of others back.
void Served::pass_over_the_silent(Actions& out) {
  for (const PeerId worker : roster_.training())
    if (waiting_.awaits(run_.now, worker)) clocks_->meet(run_.now, worker);
  for (const auto& [worker, since] : clocks_->silent()) {
    if (since + waiting_.limit() > run_.now) continue;
    clocks_->pass_over(worker);
    pass_over(waiting_, worker, run_.now - since, out);
  }
}

void Served::answer_held(Actions& out) {
  if (run_.diverged || run_.leaving) {
    while (const auto offer = clocks_->take_any()) reject(*offer, RefusalReason::not_ready, out);
    return;
  }
  while (const auto offer = clocks_->take_ripe()) {
    if (clocks_->judge(*offer) == Verdict::accept) {
      clocks_->accepted(run_.now, *offer);
      exchanges_.accept(*offer, terms_of_serving(), out);
    } else {
      reject(*offer, RefusalReason::out_of_step, out);
    }
  }
  const std::uint64_t slowest = clocks_->slowest();
  if (slowest > slowest_) waiting_.round_begins(run_.now);
  slowest_ = std::max(slowest_, slowest);
}

// Each of n workers' updates counts for 1/n, so that all together move the model as far as one would alone,
// as under the other rules.
Terms Served::terms_of_serving() const {
  const double share = run_.rules->servers.rate.value_or(1.0 / static_cast<double>(roster_.pushers()));
  return {.round = pushes_.current(), .weight = static_cast<float>(share), .part = roster_.own_part()};
}

}  // namespace starling::gossip

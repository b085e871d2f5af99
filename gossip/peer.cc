#include "gossip/peer.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace starling::gossip {

using wire::Phase;

Peer::Peer(PeerOptions options)
    : run_(std::move(options)), encounters_(std::in_place_type<NoEncounters>, run_, ending_, exchanges_) {}

Peer::View Peer::view() const {
  return {run_.membership,
          exchanges_.counts(),
          run_.membership.swarm_samples(),
          run_.samples_before,
          run_.run_start,
          run_.rules ? &run_.rules->topology : nullptr,
          std::visit([](const auto& it) { return it.round(); }, encounters_),
          exchanges_.patience(),
          run_.diverged,
          run_.over,
          joint_start_.awaited()};
}

namespace {

// A sentence that fits into a Refusal.
std::string shortened(std::string sentence) {
  constexpr std::size_t kMost = 1000;
  if (sentence.size() > kMost) {
    sentence.resize(kMost);
    while (!is_utf8(sentence)) sentence.pop_back();
    sentence += "...";
  }
  return is_printable(sentence) ? sentence : "it could not prepare the run";
}

}  // namespace

// Others may wait for this peer: they log the reason.
void Peer::handle(const PrepareFailed& failed, Actions& out) {
  run_.membership.tell_some(wire::Refusal{wire::RefusalReason::wrong_model, shortened(failed.why)}, out);
  run_.say_goodbye_and_finish(Finish::How::failed, failed.why, out);
}

void Peer::step(Instant now, const Event& event, Actions& out) {
  STARLING_CHECK(!run_.over);
  STARLING_CHECK(now >= run_.now);
  run_.now = now;
  if (deadline_ <= now) {
    // Woken late (stopped, or without processor time): the others' answers may lie unread.
    const Duration late = now - deadline_;
    run_.membership.slept(late);
    exchanges_.slept(late);
    copying_.slept(late);
    joint_start_.slept(late);
    allowance_.slept(late);
    meet([late](auto& it) { it.slept(late); });
  }
  std::visit([&](const auto& e) { handle(e, out); }, event);
  if (!run_.over) run_timers(out);
  // Everything due is handled. If a part still reports a past deadline, wake one tick later instead of
  // spinning.
  deadline_ = run_.over ? kNever : std::max(earliest_deadline(), now + Duration{1});
}

Instant Peer::earliest_deadline() const {
  const Instant next =
      std::min({run_.membership.next_deadline(), joining_.next_deadline(), copying_.next_deadline(),
                joint_start_.next_deadline(), ending_.next_deadline(), allowance_.next_deadline(),
                rewiring_.next_deadline()});
  if (run_.diverged) return std::min(next, recovery_.next_deadline());
  return std::min({next, exchanges_.next_deadline(),
                   std::visit([](const auto& it) { return it.next_deadline(); }, encounters_)});
}

void Peer::run_timers(Actions& out) {
  run_.membership.tick(run_.now, out);
  joining_.tick(out);
  if (run_.over) return;
  if (rewiring_.tick(out)) meet([](auto& it) { it.topology_changed(); });
  copying_.tick(out);
  recovery_.tick(out);
  if (run_.over) return;
  for (const std::uint64_t exchange : exchanges_.lost(out))
    meet([&](auto& it) { it.give_up(exchange, out); });
  if (joint_start_.tick(out)) {
    run_.run_start = run_.now;
    start_training(out);
  }
  maybe_end_training(out);
  allowance_.tick(out);
  meet([&](auto& it) { it.tick(out); });
  maybe_leave(out);
  if (!run_.over) maybe_finish(out);
}

// ---- joining ----

void Peer::handle(const Start&, Actions& out) {
  run_.run_start = run_.now;
  run_.membership.start(run_.now);
  joining_.start(out);
}

void Peer::handle(const Prepared& prepared, Actions& out) {
  run_.rules = prepared.rules;
  const Meeting meeting = run_.rule().meeting;
  run_.membership.prepared(prepared.device, meeting == Meeting::whenever || meeting == Meeting::lock_step);
  rewiring_.apply(out);
  if (!joining_.is_beginner()) return copying_.start(out);
  run_.run_start = run_.now - run_.options.earlier.elapsed;
  start_training(out);
}

void Peer::start_training(Actions& out) {
  run_.membership.set_phase(Phase::training);
  if (!joint_start_.begin(out)) return;
  switch (run_.rule().meeting) {
    case Meeting::never:
    case Meeting::every_step:
    case Meeting::every_round:
      break;
    case Meeting::whenever:
      encounters_.emplace<Whenever>(run_, ending_, exchanges_);
      break;
    case Meeting::lock_step:
      encounters_.emplace<LockStep>(run_, ending_, exchanges_);
      if (joint_start_.is_first()) std::get<LockStep>(encounters_).begin_in_step();
      break;
    case Meeting::served:
      encounters_.emplace<Served>(run_, ending_, exchanges_);
      break;
  }
  allowance_.start(out);
  meet([&](auto& it) { it.start(out); });
}

// ---- the replica ----

void Peer::handle(const StateArrived&, Actions& out) {
  if (!copying_.arrived()) return;
  if (!run_.diverged) return start_training(out);
  recovery_.complete();
  health_.replaced(run_.now);
  meet([](auto& it) { it.restart(); });
  out.push_back(ResumeTraining{true});
}

void Peer::lose_replica(bool finite, const std::string& why, Actions& out) {
  if (run_.diverged || run_.leaving) return;
  recovery_.begin(finite, why);
  out.push_back(Notice{Notice::What::diverged, {}, why});
  out.push_back(PauseTraining{true});
  exchanges_.abort_all(out);
  meet([&](auto& it) { it.replica_lost(out); });
}

void Peer::handle(const ReplicaGone& gone, Actions& out) {
  if (run_.phase() == Phase::training) out.push_back(StopTraining{});
  copying_.stop(out);
  exchanges_.abort_all(out);
  run_.say_goodbye_and_finish(Finish::How::failed, gone.why, out);
}

void Peer::handle(const VitalsMeasured& measured, Actions& out) {
  run_.membership.set_vitals(measured.vitals);
  if (!measured.loss || run_.phase() != Phase::training || run_.diverged) return;
  health_.measured(run_.now, *measured.loss);
  if (health_.is_good()) out.push_back(TrustReplica{});
  check_health(out);
}

void Peer::handle(const ExchangeEnded& ended, Actions& out) {
  if (const InFlight* const own = exchanges_.find(ended.exchange))
    health_.ended(run_.now, own->partner, ended.quarantined);
  meet([&](auto& it) { it.ended(ended, out); });
  if (run_.phase() == Phase::training) check_health(out);
}

void Peer::check_health(Actions& out) {
  const auto complaint = health_.complaint(run_.now);
  if (complaint && copying_.has_donor()) lose_replica(true, *complaint, out);
}

// ---- ending ----

void Peer::maybe_end_training(Actions& out) {
  if (run_.phase() != Phase::training || run_.leaving || run_.diverged) return;
  if (!meet([](auto& it) { return it.end_reached(); })) return;
  run_.doubt = ending_.doubt();
  out.push_back(StopTraining{});
  out.push_back(TrainingEnded{});
  run_.membership.set_phase(Phase::settling);
  // The first peers to reach the swarm's end tell others at once, so that those do not train far beyond it.
  run_.membership.spread(run_.now, out);
  ending_.settle(meet([](auto& it) { return it.exchanges_to_settle(); }));
}

void Peer::maybe_finish(Actions& out) {
  if (run_.diverged) return;
  if (run_.phase() == Phase::settling && meet([](auto& it) { return it.settled(); })) {
    meet([&](auto& it) { it.finish(out); });
    run_.membership.set_phase(Phase::finished);
    ending_.linger();
  }
  if (run_.phase() == Phase::finished && ending_.may_stop(exchanges_.answering() > 0))
    run_.say_goodbye_and_finish(Finish::How::finished, run_.doubt, out);
}

void Peer::handle(const LeaveRequested&, Actions& out) {
  if (run_.leaving) return;
  ending_.leave();
  if (run_.phase() == Phase::training) out.push_back(StopTraining{});
  copying_.stop(out);
  joining_.stop();
}

void Peer::maybe_leave(Actions& out) {
  if (!run_.leaving) return;
  const auto& in_flight = exchanges_.in_flight();
  if (ending_.leave_overdue()) {
    while (!in_flight.empty()) meet([&](auto& it) { it.give_up(in_flight.front().exchange, out); });
  } else if (!in_flight.empty() || meet([](auto& it) { return it.due(); })) {
    return;
  }
  run_.say_goodbye_and_finish(Finish::How::left, "", out);
}

}  // namespace starling::gossip

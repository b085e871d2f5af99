#include "gossip/peer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::gossip {

using wire::Phase;

Peer::Peer(PeerOptions options)
    : run_(std::move(options)), encounters_(std::make_unique<NoEncounters>(run_, ending_, exchanges_)) {}

Peer::View Peer::view() const {
  return {run_.membership,
          exchanges_.counts(),
          run_.membership.swarm_samples(),
          run_.run_start,
          run_.rules ? &run_.rules->topology : nullptr,
          encounters_->round(),
          exchanges_.patience(),
          run_.diverged,
          run_.over};
}

void Peer::step(Instant now, const Event& event, std::vector<Action>& out) {
  STARLING_CHECK(!run_.over);
  STARLING_CHECK(now >= run_.now);
  run_.now = now;
  if (deadline_ <= now) {
    // Woken late (stopped, or without processor time): the others' answers may lie unread.
    const Duration late = now - deadline_;
    run_.membership.slept(late);
    exchanges_.slept(late);
    copying_.slept(late);
  }
  std::visit([&](const auto& e) { handle(e, out); }, event);
  if (!run_.over) run_timers(out);
  // Everything due is handled. If a part still reports a past deadline, wake one tick later instead of
  // spinning.
  deadline_ = run_.over ? kNever : std::max(earliest_deadline(), now + Duration{1});
}

Instant Peer::earliest_deadline() const {
  const Instant next = std::min({run_.membership.next_deadline(), joining_.next_deadline(),
                                 copying_.next_deadline(), ending_.next_deadline()});
  if (run_.diverged) return std::min(next, recovery_.next_deadline());
  return std::min({next, exchanges_.next_deadline(), encounters_->next_deadline()});
}

void Peer::run_timers(std::vector<Action>& out) {
  run_.membership.tick(run_.now, out);
  joining_.tick(out);
  if (run_.over) return;
  copying_.tick(out);
  recovery_.tick(out);
  if (run_.over) return;
  for (const std::uint64_t exchange : exchanges_.lost(out)) encounters_->give_up(exchange, out);
  maybe_end_training(out);
  encounters_->tick(out);
  maybe_leave(out);
  if (!run_.over) maybe_finish(out);
}

// ---- joining ----

void Peer::handle(const Start&, std::vector<Action>& out) {
  run_.run_start = run_.now;
  run_.membership.start(run_.now);
  joining_.start(out);
}

void Peer::handle(const Introduced& introduced, std::vector<Action>& out) {
  run_.membership.add_contact(introduced.address);
  run_.membership.sync_with(introduced.address, out);
}

void Peer::handle(const Received& received, std::vector<Action>& out) {
  const Instant now = run_.now;
  const PeerId from = received.from;
  const Address& address = received.address;
  Membership& membership = run_.membership;
  if (const auto* ping = std::get_if<wire::Ping>(&received.message)) {
    membership.on_ping(now, from, address, *ping, out);
  } else if (const auto* request = std::get_if<wire::PingRequest>(&received.message)) {
    membership.on_ping_request(now, from, address, *request, out);
  } else if (const auto* ack = std::get_if<wire::Ack>(&received.message)) {
    membership.on_ack(now, from, address, *ack, out);
  } else if (const auto* gossip = std::get_if<wire::Gossip>(&received.message)) {
    membership.on_gossip(now, from, address, *gossip, out);
  } else if (const auto* digest = std::get_if<wire::Digest>(&received.message)) {
    membership.on_digest(now, from, address, *digest, out);
    rewiring_.correct(address, digest->topology, out);
  } else if (const auto* view = std::get_if<wire::View>(&received.message)) {
    membership.on_view(now, from, address, *view, out);
    rewiring_.correct(address, view->topology, out);
  } else if (const auto* leave = std::get_if<wire::Leave>(&received.message)) {
    membership.on_leave(now, from, *leave, out);
  } else if (const auto* join = std::get_if<wire::Join>(&received.message)) {
    if (joining_.answer(received, *join, out)) rewiring_.correct(address, {}, out);
  } else if (const auto* welcome = std::get_if<wire::Welcome>(&received.message)) {
    joining_.welcomed(received, *welcome, out);
  } else if (const auto* refusal = std::get_if<wire::Refusal>(&received.message)) {
    joining_.refused(received, *refusal, out);
  } else if (const auto* rewire = std::get_if<wire::Rewire>(&received.message)) {
    if (rewiring_.received(received, *rewire, out)) encounters_->topology_changed();
  }
}

void Peer::handle(const Unreachable& unreachable, std::vector<Action>& out) {
  run_.membership.unreachable(run_.now, unreachable.address, out);
  joining_.unreachable(unreachable, out);
}

void Peer::handle(const RewireRequested& requested, std::vector<Action>& out) {
  if (rewiring_.requested(requested, out)) encounters_->topology_changed();
}

void Peer::handle(const Prepared& prepared, std::vector<Action>& out) {
  run_.rules = prepared.rules;
  run_.membership.set_device(prepared.device);
  rewiring_.apply(out);
  encounters_ = encounters_for(run_, ending_, exchanges_);
  if (!joining_.is_beginner()) return copying_.start(out);
  run_.run_start = run_.now - run_.options.earlier.elapsed;
  start_training(out);
}

void Peer::handle(const PrepareFailed& failed, std::vector<Action>& out) {
  run_.say_goodbye_and_finish(Finish::How::failed, failed.why, out);
}

// ---- the replica ----

void Peer::handle(const StateAdvanced& advanced, std::vector<Action>& out) {
  copying_.advanced(advanced, out);
}

void Peer::handle(const StateLost& lost, std::vector<Action>& out) {
  copying_.lost(lost, out);
}

void Peer::handle(const StateArrived&, std::vector<Action>& out) {
  if (!copying_.arrived()) return;
  if (!run_.diverged) return start_training(out);
  recovery_.complete();
  encounters_->restart();
  out.push_back(ResumeTraining{true});
}

void Peer::handle(const ReplicaDiverged&, std::vector<Action>& out) {
  if (run_.phase() == Phase::joining || run_.diverged || run_.leaving) return;
  recovery_.begin();
  out.push_back(Notice{Notice::What::diverged, {}, {}});
  out.push_back(PauseTraining{true});
  exchanges_.abort_all(out);
  encounters_->replica_lost(out);
}

void Peer::handle(const ReplicaGone& gone, std::vector<Action>& out) {
  if (run_.phase() == Phase::training) out.push_back(StopTraining{});
  copying_.stop(out);
  exchanges_.abort_all(out);
  run_.say_goodbye_and_finish(Finish::How::failed, gone.why, out);
}

// ---- training and exchanging ----

void Peer::start_training(std::vector<Action>& out) {
  run_.membership.set_phase(Phase::training);
  encounters_->start(out);
}

void Peer::handle(const Stepped& stepped, std::vector<Action>&) {
  const std::uint64_t earlier = run_.options.earlier.samples;
  run_.membership.set_progress(stepped.steps, stepped.samples - std::min(stepped.samples, earlier));
}

void Peer::handle(const VitalsMeasured& measured, std::vector<Action>&) {
  run_.membership.set_vitals(measured.vitals);
}

void Peer::handle(const ExchangeAdvanced& advanced, std::vector<Action>&) {
  encounters_->advanced(advanced);
}

void Peer::handle(const ExchangeEnded& ended, std::vector<Action>& out) {
  encounters_->ended(ended, out);
}

void Peer::handle(const ExchangeOffered& offered, std::vector<Action>& out) {
  encounters_->offered({offered.from, offered.exchange, offered.round}, out);
}

void Peer::handle(const AnswerEnded& ended, std::vector<Action>& out) {
  encounters_->answer_ended(ended, out);
}

// ---- ending ----

void Peer::maybe_end_training(std::vector<Action>& out) {
  if (run_.phase() != Phase::training || run_.leaving || run_.diverged || !encounters_->end_reached()) return;
  out.push_back(StopTraining{});
  out.push_back(TrainingEnded{});
  run_.membership.set_phase(Phase::settling);
  // The first peers to reach the swarm's end tell others at once, so that those do not train far beyond it.
  run_.membership.spread(run_.now, out);
  ending_.settle(encounters_->exchanges_to_settle());
}

void Peer::maybe_finish(std::vector<Action>& out) {
  if (run_.diverged) return;
  if (run_.phase() == Phase::settling && encounters_->settled()) {
    encounters_->finish(out);
    run_.membership.set_phase(Phase::finished);
    ending_.linger();
  }
  if (run_.phase() == Phase::finished && ending_.may_stop(exchanges_.answering() > 0))
    run_.say_goodbye_and_finish(Finish::How::finished, "", out);
}

void Peer::handle(const EndRequested&, std::vector<Action>& out) {
  ending_.request();
  if (run_.phase() == Phase::joining) handle(LeaveRequested{}, out);  // there is nothing to settle yet
}

void Peer::handle(const LeaveRequested&, std::vector<Action>& out) {
  if (run_.leaving) return;
  ending_.leave();
  if (run_.phase() == Phase::training) out.push_back(StopTraining{});
  copying_.stop(out);
  joining_.stop();
}

void Peer::maybe_leave(std::vector<Action>& out) {
  if (!run_.leaving) return;
  const auto& in_flight = exchanges_.in_flight();
  if (ending_.leave_overdue()) {
    while (!in_flight.empty()) encounters_->give_up(in_flight.front().exchange, out);
  } else if (!in_flight.empty() || encounters_->due()) {
    return;
  }
  run_.say_goodbye_and_finish(Finish::How::left, "", out);
}

void Peer::handle(const Tick&, std::vector<Action>&) {}

}  // namespace starling::gossip

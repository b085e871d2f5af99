#include "gossip/peer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace starling::gossip {

using wire::Phase;

namespace {

enum Stream : std::uint64_t { kMembershipStream = 1, kPartnerStream, kOwnStream };

wire::Member self_of(const PeerOptions& options) {
  wire::Member self;
  self.id = options.id;
  self.name = options.name;
  self.address = options.address;
  return self;
}

}  // namespace

Peer::Peer(PeerOptions options)
    : options_(std::move(options)),
      random_(Random(options_.seed).split(kOwnStream)),
      membership_(self_of(options_), options_.membership, Random(options_.seed).split(kMembershipStream)),
      join_hopeless_(options_.join.size()),
      join_delay_(options_.join_retry_min) {}

void Peer::step(Instant now, const Event& event, std::vector<Action>& out) {
  STARLING_CHECK(!over_);
  STARLING_CHECK(now >= now_);
  now_ = now;
  std::visit([&](const auto& e) { handle(e, out); }, event);
  if (!over_) run_timers(out);
}

Instant Peer::next_deadline() const {
  Instant next = std::min({membership_.next_deadline(), next_join_, next_state_request_, linger_until_});
  if (in_flight_) next = std::min(next, in_flight_->deadline);
  if (phase() == Phase::training) {
    if (rules_->end.time) next = std::min(next, run_start_ + *rules_->end.time);
    if (!in_flight_ && rules_->rule != Rule::none) next = std::min(next, pacer_->next_deadline(now_));
  }
  // Whatever was due has been done; anything that still claims to be is woken for at the next instant.
  return std::max(next, now_ + Duration{1});
}

void Peer::run_timers(std::vector<Action>& out) {
  membership_.tick(now_, out);
  if (next_join_ <= now_) send_joins(out);
  if (next_state_request_ <= now_) ask_for_state(out);
  if (in_flight_ && in_flight_->deadline <= now_) {
    out.push_back(AbortExchange{in_flight_->exchange});
    ++exchanges_.aborted;
    in_flight_.reset();
    pacer_->hold_off(now_, options_.exchange_hold_off);
  }
  maybe_end_training(out);
  maybe_exchange(out);
  maybe_finish(out);
}

// ---- joining ----

void Peer::handle(const Start&, std::vector<Action>& out) {
  run_start_ = now_;
  membership_.start(now_);
  if (begins()) {
    manifest_ = options_.manifest;
    out.push_back(Prepare{*manifest_});
  } else {
    next_join_ = now_;
  }
}

void Peer::send_joins(std::vector<Action>& out) {
  for (std::size_t i = 0; i < options_.join.size(); ++i) {
    if (!join_hopeless_[i]) out.push_back(Send{options_.join[i], wire::Join{membership_.self()}});
  }
  next_join_ = now_ + from_seconds(to_seconds(join_delay_) * random_.uniform(0.75, 1.25));
  join_delay_ = std::min(2 * join_delay_, options_.join_retry_max);
}

void Peer::handle(const Received& received, std::vector<Action>& out) {
  membership_.heard(now_, received.from, out);
  if (const auto* ping = std::get_if<wire::Ping>(&received.message)) {
    membership_.on_ping(now_, received.from, received.address, *ping, out);
  } else if (const auto* ack = std::get_if<wire::Ack>(&received.message)) {
    membership_.merge(now_, ack->members, out);
  } else if (const auto* gossip = std::get_if<wire::Gossip>(&received.message)) {
    membership_.on_gossip(now_, received.from, received.address, *gossip, out);
  } else if (const auto* leave = std::get_if<wire::Leave>(&received.message)) {
    // Only the member itself may say this.
    if (leave->self.id == received.from) membership_.merge(now_, {&leave->self, 1}, out);
  } else if (const auto* join = std::get_if<wire::Join>(&received.message)) {
    on(received, *join, out);
  } else if (const auto* welcome = std::get_if<wire::Welcome>(&received.message)) {
    on(received, *welcome, out);
  } else if (const auto* refusal = std::get_if<wire::Refusal>(&received.message)) {
    on(received, *refusal, out);
  }
}

void Peer::on(const Received& from, const wire::Join& join, std::vector<Action>& out) {
  if (join.self.id != from.from) return;
  membership_.merge(now_, {&join.self, 1}, out);
  if (!manifest_) {
    out.push_back(Send{from.address,
                       wire::Refusal{wire::RefusalReason::not_ready, "this peer is still joining itself"}});
    return;
  }
  out.push_back(
      Send{from.address, wire::Welcome{*manifest_, now_ - run_start_, membership_.news(from.from)}});
}

void Peer::on(const Received&, const wire::Welcome& welcome, std::vector<Action>& out) {
  membership_.merge(now_, welcome.members, out);
  if (manifest_) return;  // another address of the same swarm was quicker
  manifest_ = welcome.manifest;
  run_start_ = now_ - welcome.elapsed;
  next_join_ = kNever;
  out.push_back(Prepare{*manifest_});
}

void Peer::on(const Received& from, const wire::Refusal& refusal, std::vector<Action>& out) {
  if (manifest_) return;
  out.push_back(Notice{Notice::What::waiting, from.from, to_string(from.address) + " says: " + refusal.text});
}

void Peer::handle(const Unreachable& unreachable, std::vector<Action>& out) {
  membership_.unreachable(now_, unreachable.address, out);
  if (manifest_ || begins()) return;
  bool hope = false;
  bool ours = false;
  for (std::size_t i = 0; i < options_.join.size(); ++i) {
    if (options_.join[i] == unreachable.address) {
      ours = true;
      if (unreachable.final) join_hopeless_[i] = true;
    }
    hope = hope || !join_hopeless_[i];
  }
  if (!ours) return;
  if (!hope) {
    finish(Finish::How::failed, unreachable.why, out);
  } else {
    out.push_back(Notice{Notice::What::waiting, {}, unreachable.why});
  }
}

void Peer::handle(const Prepared& prepared, std::vector<Action>& out) {
  rules_ = prepared.rules;
  prepared_ = true;
  partners_.emplace(rules_->topology, Random(options_.seed).split(kPartnerStream));
  pacer_.emplace(rules_->pace);
  if (begins()) {
    run_start_ = now_;
    start_training(out);
  } else {
    ask_for_state(out);
  }
}

void Peer::handle(const PrepareFailed& failed, std::vector<Action>& out) {
  membership_.say_goodbye(out);
  finish(Finish::How::failed, failed.why, out);
}

void Peer::ask_for_state(std::vector<Action>& out) {
  std::vector<const wire::Member*> donors;
  for (const auto& [id, member] : membership_.others()) {
    if (member.liveness == wire::Liveness::alive && member.phase >= Phase::training)
      donors.push_back(&member);
  }
  if (donors.empty()) {
    out.push_back(Notice{Notice::What::waiting, {}, "no member of the swarm has parameters to copy yet"});
    next_state_request_ = now_ + options_.state_retry;
    return;
  }
  const auto& donor = *donors[random_.below(donors.size())];
  next_state_request_ = kNever;
  donor_ = donor.id;
  out.push_back(FetchState{donor.id, donor.address});
}

void Peer::handle(const StateLost& lost, std::vector<Action>& out) {
  if (phase() != Phase::joining) return;
  donor_.reset();
  next_state_request_ = now_ + options_.state_retry;
  out.push_back(Notice{Notice::What::waiting, {}, lost.why});
}

void Peer::handle(const StateAdvanced&, std::vector<Action>&) {}

void Peer::handle(const StateArrived&, std::vector<Action>& out) {
  if (phase() != Phase::joining) return;
  donor_.reset();
  start_training(out);
}

// ---- training and exchanging ----

void Peer::start_training(std::vector<Action>& out) {
  membership_.set_phase(Phase::training);
  pacer_->start(now_, membership_.self().steps);
  if (!end_reached()) out.push_back(StartTraining{});
}

void Peer::handle(const Stepped& stepped, std::vector<Action>&) {
  membership_.set_progress(stepped.steps, stepped.samples);
}

void Peer::maybe_exchange(std::vector<Action>& out) {
  if (in_flight_ || !rules_ || rules_->rule == Rule::none) return;
  const std::uint64_t steps = membership_.self().steps;
  if (phase() == Phase::training) {
    if (!pacer_->due(now_, steps)) return;
  } else if (phase() != Phase::settling || settling_left_ == 0) {
    return;
  }
  const auto partner = partners_->choose(membership_, last_exchange_ + 1);
  pacer_->taken(now_, steps);
  if (!partner) {
    settling_left_ = 0;  // nobody is left to settle with
    pacer_->hold_off(now_, options_.exchange_hold_off);
    return;
  }
  if (phase() == Phase::settling) --settling_left_;
  ++exchanges_.begun;
  in_flight_ = InFlight{++last_exchange_, *partner, now_ + options_.exchange_timeout};
  out.push_back(BeginExchange{last_exchange_, *partner, membership_.find(*partner)->address});
}

void Peer::handle(const ExchangeEnded& ended, std::vector<Action>&) {
  if (!in_flight_ || in_flight_->exchange != ended.exchange) return;  // already given up
  in_flight_.reset();
  switch (ended.outcome) {
    case Outcome::completed:
      ++exchanges_.completed;
      return;
    case Outcome::aborted:
    case Outcome::poisoned:
      ++exchanges_.aborted;
      break;
    case Outcome::rejected:
      ++exchanges_.rejected;
      break;
  }
  pacer_->hold_off(now_, options_.exchange_hold_off);
}

void Peer::handle(const ExchangeOffered& offered, std::vector<Action>& out) {
  AnswerOffer answer{offered.from, offered.exchange, true, {}};
  if (phase() == Phase::joining || rules_->rule == Rule::none) {
    answer.accept = false;
    answer.reason = wire::RefusalReason::not_ready;
  } else if (answers_ >= options_.answers_max) {
    answer.accept = false;
    answer.reason = wire::RefusalReason::busy;
  }
  if (answer.accept) ++answers_;
  out.push_back(answer);
}

void Peer::handle(const AnswerEnded& ended, std::vector<Action>&) {
  STARLING_CHECK(answers_ > 0);
  --answers_;
  exchanges_.answered += ended.completed;
}

// ---- ending ----

bool Peer::end_reached() const {
  if (end_requested_) return true;
  const End& end = rules_->end;
  return (end.swarm_samples && membership_.swarm_samples() >= *end.swarm_samples) ||
         (end.steps && membership_.self().steps >= *end.steps) ||
         (end.time && now_ - run_start_ >= *end.time);
}

void Peer::maybe_end_training(std::vector<Action>& out) {
  if (phase() != Phase::training || !end_reached()) return;
  out.push_back(StopTraining{});
  out.push_back(TrainingEnded{});
  membership_.set_phase(Phase::settling);
  // Whoever reaches the swarm's end first lets the others know what it knows, so that they do not train far
  // beyond it.
  membership_.spread(out);
  std::uint64_t live = 1;
  for (const auto& [id, member] : membership_.others()) live += Membership::is_live(member);
  // 2 + log2 n exchanges bring the replicas together (rounded up); alone there is nothing to settle.
  settling_left_ = rules_->rule == Rule::none || live < 2 ? 0 : 2 + std::bit_width(live - 1);
}

void Peer::maybe_finish(std::vector<Action>& out) {
  if (phase() == Phase::settling && settling_left_ == 0 && !in_flight_) {
    membership_.set_phase(Phase::finished);
    linger_until_ = now_ + options_.linger;
  }
  if (phase() != Phase::finished) return;
  bool all_settled = answers_ == 0;
  for (const auto& [id, member] : membership_.others()) {
    if (Membership::is_live(member) && member.phase != Phase::finished) all_settled = false;
  }
  if (!all_settled && now_ < linger_until_) return;
  membership_.say_goodbye(out);
  finish(Finish::How::finished, "", out);
}

void Peer::handle(const EndRequested&, std::vector<Action>& out) {
  end_requested_ = true;
  if (phase() == Phase::joining) handle(LeaveRequested{}, out);  // there is nothing to settle yet
}

void Peer::handle(const LeaveRequested&, std::vector<Action>& out) {
  if (phase() == Phase::training) out.push_back(StopTraining{});
  if (in_flight_) {
    out.push_back(AbortExchange{in_flight_->exchange});
    ++exchanges_.aborted;
    in_flight_.reset();
  }
  membership_.say_goodbye(out);
  finish(Finish::How::left, "", out);
}

void Peer::finish(Finish::How how, std::string why, std::vector<Action>& out) {
  over_ = true;
  out.push_back(Finish{how, std::move(why)});
}

void Peer::handle(const Introduced&, std::vector<Action>&) {}

void Peer::handle(const Tick&, std::vector<Action>&) {}

}  // namespace starling::gossip

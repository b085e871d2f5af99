// The part of a Peer that exchanges: whom with, when, on what terms, and for how long it waits.

#include <algorithm>

#include "base/check.h"
#include "gossip/peer.h"
#include "gossip/shares.h"

namespace starling::gossip {

using wire::Phase;
using wire::RefusalReason;

// ---- one's own, of rules without a barrier ----

bool Peer::exchange_due() const {
  if (!rules_ || diverged_ || !(in_flight_.empty() || parts_apart())) return false;
  if (rule().meeting == Meeting::never || rule().meeting == Meeting::lock_step) return false;
  if (rule().meeting == Meeting::served && !push_is_due()) return false;
  if (leave_by_ != kNever) return phase() >= Phase::training && !last_exchange_begun_;
  return moment_is_due();
}

// Whether an exchange, or a round, is due: by the pace while it trains, one after the other while it settles.
bool Peer::moment_is_due() const {
  if (phase() == Phase::training && serves() && rules_->pace.kind == Pace::Kind::steps)
    return pacer_->not_before() <= now_;  // it makes no steps: push_is_due() decides
  if (phase() == Phase::training) return pacer_->due(now_, membership_.self().steps);
  return phase() == Phase::settling && settling_left_ > 0 && pacer_->not_before() <= now_;
}

void Peer::maybe_exchange(std::vector<Action>& out) {
  if (!exchange_due()) return;
  if (phase() == Phase::settling && leave_by_ == kNever) {
    if (settling_tries_ == 0) {
      settling_left_ = 0;  // nobody is left to settle with
      return;
    }
    --settling_tries_;
  }
  if (rule().meeting == Meeting::served) return push(out);
  if (rule().meeting == Meeting::outer_rounds) out.push_back(BeginRound{rounds_.begin()});
  const auto partner = partners_->choose(now_, membership_);
  pacer_->taken(now_, membership_.self().steps);
  if (leave_by_ != kNever) last_exchange_begun_ = true;
  if (!partner) {
    pacer_->hold_off(now_, options_.exchange_hold_off);
    return;
  }
  begin_exchange(*partner, terms_with(*partner), now_ + patience_.limit(*partner), out);
}

void Peer::begin_exchange(PeerId partner, const Terms& terms, Instant deadline, std::vector<Action>& out) {
  ++exchanges_.begun;
  acceptance_.own(now_);
  in_flight_.push_back({.exchange = ++last_exchange_,
                        .partner = partner,
                        .begun = now_,
                        .deadline = deadline,
                        .doubt = now_ + options_.exchange_doubt,
                        .heard = now_,
                        .settles = phase() == Phase::settling});
  out.push_back(BeginExchange{last_exchange_, partner, membership_.find(partner)->member.address, terms});
}

Terms Peer::terms_with(PeerId partner) const {
  Terms terms;
  terms.round = rounds_.current();
  const Record* const record = membership_.find(partner);
  if (record != nullptr && rule().shares)
    terms.own_share = own_share(rules_->shares, now_, membership_.self(), *record);
  return terms;
}

// Null where it was given up.
Peer::InFlight* Peer::in_flight(std::uint64_t exchange) {
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(),
                                  [&](const InFlight& it) { return it.exchange == exchange; });
  return found == in_flight_.end() ? nullptr : &*found;
}

const Peer::InFlight* Peer::in_flight_with(PeerId partner) const {
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(),
                                  [&](const InFlight& it) { return it.partner == partner; });
  return found == in_flight_.end() ? nullptr : &*found;
}

// REQUIRES: it is in flight.
Peer::InFlight Peer::take_in_flight(std::uint64_t exchange) {
  const InFlight taken = *in_flight(exchange);
  std::erase_if(in_flight_, [&](const InFlight& it) { return it.exchange == exchange; });
  return taken;
}

// A partner that seems to be gone is probed, and once it is suspect it is not waited for any longer.
void Peer::watch_exchanges(std::vector<Action>& out) {
  std::vector<std::uint64_t> lost;
  for (InFlight& exchange : in_flight_) {
    if (exchange.doubt <= now_) {
      exchange.doubt = kNever;
      membership_.doubt(now_, exchange.partner, out);
    }
    const Record* const partner = membership_.find(exchange.partner);
    const bool gone = partner == nullptr || partner->member.liveness != wire::Liveness::alive;
    const bool late = exchange.deadline <= now_;
    if (late) patience_.timed_out(exchange.partner);
    if (late || gone) lost.push_back(exchange.exchange);
  }
  for (const std::uint64_t exchange : lost) abort_exchange(exchange, out);
}

void Peer::abort_exchange(std::uint64_t exchange, std::vector<Action>& out) {
  const InFlight given_up = take_in_flight(exchange);
  out.push_back(AbortExchange{exchange});
  ++exchanges_.aborted;
  partners_->met(membership_, given_up.partner, now_ - given_up.begun);
  came_to_nothing(given_up.partner);
  std::erase(pushed_to_, given_up.partner);
}

// An exchange of its own with this partner failed, in whatever way.
void Peer::came_to_nothing(PeerId partner) {
  membership_.exchange_aborted(now_, partner);
  if (rounds_.edge(partner) != nullptr) {
    rounds_.meet(partner, false);  // not in this round any more
  } else {
    pacer_->hold_off(now_, options_.exchange_hold_off);
  }
}

void Peer::handle(const ExchangeAdvanced& advanced, std::vector<Action>&) {
  InFlight* const exchange = in_flight(advanced.exchange);
  if (exchange == nullptr) return;
  // Where a partner may let this peer wait, the first sign comes when it is there: that says nothing about
  // the link.
  const bool waited = rule().lets_wait() && !exchange->advanced;
  if (!waited) exchange->silence = std::max(exchange->silence, now_ - exchange->heard);
  exchange->heard = now_;
  exchange->advanced = true;
  Rounds::Edge* const edge = rounds_.edge(exchange->partner);
  if (exchange->asks && edge != nullptr) edge->state = Rounds::Edge::State::under_way;
  exchange->deadline = now_ + patience_.limit(exchange->partner);
}

void Peer::handle(const ExchangeEnded& ended, std::vector<Action>& out) {
  if (in_flight(ended.exchange) == nullptr) return;  // already given up
  const InFlight exchange = take_in_flight(ended.exchange);
  if (rule().meeting == Meeting::served) return push_part_ended(exchange, ended, out);
  switch (ended.outcome) {
    case Outcome::completed:
      ++exchanges_.completed;
      membership_.exchange_completed(exchange.partner);
      partners_->met(membership_, exchange.partner, now_ - exchange.begun);
      if (exchange.advanced || !rule().lets_wait())
        patience_.went_well(exchange.partner, std::max(exchange.silence, now_ - exchange.heard));
      if (rounds_.edge(exchange.partner) != nullptr) {
        rounds_.meet(exchange.partner, true);
        round_met_anyone_ = true;
      } else if (exchange.settles && settling_left_ > 0) {
        --settling_left_;
      }
      return;
    case Outcome::rejected:
      ++exchanges_.rejected;
      rounds_.left_behind(ended.round);
      if (catch_up(exchange, out)) return;
      break;
    case Outcome::poisoned:
      membership_.poisoned_by(now_, exchange.partner, out);
      [[fallthrough]];
    case Outcome::aborted:
      ++exchanges_.aborted;
      // Who was asked and has not answered yet is asked again in a moment.
      if (exchange.asks && !exchange.advanced && ended.outcome == Outcome::aborted) return;
      break;
  }
  last_exchange_begun_ = false;  // a leaver tries another neighbor
  came_to_nothing(exchange.partner);
  if (exchange.asks && ended.outcome == Outcome::rejected && ended.round > rounds_.current())
    rounds_.comes_in(exchange.partner, ended.round);
}

// Where outer steps are counted, who is refused because it is behind makes the partner's next one and asks
// again at once. A partner that makes many rounds in the time of one of this peer's would be too far ahead
// for ever.
bool Peer::catch_up(const InFlight& refused, std::vector<Action>& out) {
  if (rule().meeting != Meeting::outer_rounds || refused.again) return false;
  const Record* const partner = membership_.find(refused.partner);
  if (rounds_.next() <= rounds_.current() + 1 || partner == nullptr) return false;
  out.push_back(BeginRound{rounds_.begin()});
  begin_exchange(refused.partner, terms_with(refused.partner), now_ + patience_.limit(refused.partner), out);
  in_flight_.back().again = true;
  in_flight_.back().settles = refused.settles;
  return true;
}

// ---- those of others ----

void Peer::handle(const ExchangeOffered& offered, std::vector<Action>& out) {
  const Rounds::Offer offer{offered.from, offered.exchange, offered.round};
  if (const auto reason = reason_to_refuse(offer)) return refuse(offer, *reason, out);
  if (rule().meeting == Meeting::served) return take_push(offer, out);
  if (rule().meeting == Meeting::outer_rounds) follow_ahead(offer, out);
  if (rule().meeting != Meeting::lock_step) return accept(offer, out);
  // It makes one exchange at a time with this peer: an earlier one that is still answered has come to nothing
  // there.
  const Rounds::Edge* const edge = rounds_.edge(offer.from);
  if (edge != nullptr && edge->state == Rounds::Edge::State::under_way && edge->answered != 0 &&
      edge->answered < offer.exchange) {
    std::erase(answers_, Answering{offer.from, edge->answered});
    rounds_.meet(offer.from, false);
  }
  switch (rounds_.judge(offer)) {
    case Rounds::Verdict::accept:
      return accept(offer, out);
    case Rounds::Verdict::refuse:
      return refuse(offer, RefusalReason::out_of_step, out);
    case Rounds::Verdict::hold:
      // Of one partner the latest is held: it has forgotten an earlier one.
      if (const auto earlier = rounds_.held_of(offer.from)) {
        rounds_.withdraw(earlier->from, earlier->exchange);
        refuse(*earlier, RefusalReason::out_of_step, out);
      }
      rounds_.hold(offer);
  }
}

// Where outer steps are counted, who is offered one from far ahead makes the partner's outer step first: what
// it answers with is then as new as the partner's, however slowly it learns, and nobody who is slow is locked
// out. Who is finished makes none any more; what it has is the newest that it will ever have.
void Peer::follow_ahead(const Rounds::Offer& offer, std::vector<Action>& out) {
  if (phase() == Phase::finished || offer.round <= rounds_.current() + kRoundsApart) return;
  out.push_back(BeginRound{rounds_.begin()});
}

std::optional<RefusalReason> Peer::reason_to_refuse(const Rounds::Offer& offer) {
  const Record* const initiator = membership_.find(offer.from);
  if (phase() == Phase::joining || rule().meeting == Meeting::never || diverged_)
    return RefusalReason::not_ready;
  if (initiator != nullptr && initiator->quarantined_until > now_) return RefusalReason::quarantined;
  switch (rule().meeting) {
    case Meeting::never:
      break;
    case Meeting::lock_step:
      // Of each neighbor one offer in a round: bounded without a number. Who is finished begins no round.
      if (initiator == nullptr || phase() == Phase::finished || leave_by_ != kNever)
        return RefusalReason::not_ready;
      return std::nullopt;
    case Meeting::outer_rounds:
      rounds_.left_behind(offer.round);
      if (rounds_.current() > offer.round + kRoundsApart ||
          offer.round > rounds_.current() + Rounds::kAheadMost)
        return RefusalReason::out_of_step;
      break;
    case Meeting::served:
      return reason_to_refuse_push(offer);
    case Meeting::whenever:
      break;
  }
  if (answers_.size() >= options_.answers_max) return RefusalReason::busy;
  if (rule().limited && !acceptance_.take(now_, offer.from)) return RefusalReason::busy;
  return std::nullopt;
}

void Peer::accept(const Rounds::Offer& offer, std::vector<Action>& out) {
  Terms terms = serves() ? terms_of_serving() : terms_with(offer.from);
  if (Rounds::Edge* const edge = rounds_.edge(offer.from)) {
    edge->state = Rounds::Edge::State::under_way;
    edge->answered = offer.exchange;
    terms.weight = edge->weight;
    withdraw_asks(out);
  }
  answers_.push_back({offer.from, offer.exchange});
  out.push_back(AnswerOffer{offer.from, offer.exchange, true, {}, terms});
}

void Peer::refuse(const Rounds::Offer& offer, RefusalReason reason, std::vector<Action>& out) const {
  Terms terms;
  if (rule().meeting == Meeting::lock_step && reason == RefusalReason::out_of_step)
    terms.round = rounds_.expected();
  if (clocks_ && reason == RefusalReason::out_of_step) terms.round = clocks_->of(offer.from);
  if (rule().meeting == Meeting::outer_rounds) terms.round = rounds_.current();
  out.push_back(AnswerOffer{offer.from, offer.exchange, false, reason, terms});
}

void Peer::handle(const AnswerEnded& ended, std::vector<Action>& out) {
  if (rounds_.withdraw(ended.from, ended.exchange)) return;
  if (clocks_ && clocks_->withdraw(ended.from, ended.exchange)) return;
  if (std::erase(answers_, Answering{ended.from, ended.exchange}) == 0) return;  // refused meanwhile
  exchanges_.answered += ended.completed;
  pushes_taken_ += ended.completed;
  if (ended.completed) partners_->met(membership_, ended.from, std::nullopt);
  if (ended.poisoned) membership_.poisoned_by(now_, ended.from, out);
  const Rounds::Edge* const edge = rounds_.edge(ended.from);
  if (edge != nullptr && edge->state == Rounds::Edge::State::under_way && edge->answered == ended.exchange) {
    rounds_.meet(ended.from, ended.completed);
    round_met_anyone_ = round_met_anyone_ || ended.completed;
  }
}

// ---- rounds in lock-step ----

void Peer::keep_in_step(std::vector<Action>& out) {
  if (!rules_ || rule().meeting != Meeting::lock_step || diverged_ || phase() == Phase::joining) return;
  if (leave_by_ != kNever || phase() == Phase::finished) return abandon_round(out);
  for (;;) {
    answer_held(out);
    if (!rounds_.open()) {
      if (!moment_is_due()) return;
      open_round(out);
      answer_held(out);
    }
    pass_over_the_absent(out);
    follow_links();
    meet_all(out);
    withdraw_asks(out);
    if (!rounds_.all_over()) return;
    close_round(out);
  }
}

// All of its own at once: one after the other, a round would be a chain through the whole graph.
void Peer::meet_all(std::vector<Action>& out) {
  while (Rounds::Edge* const edge = rounds_.next_own()) {
    edge->state = Rounds::Edge::State::under_way;
    begin_along(edge->partner, out);
  }
}

// REQUIRES: the round that is open has an edge to it.
void Peer::begin_along(PeerId partner, std::vector<Action>& out) {
  Terms terms = terms_with(partner);
  terms.weight = rounds_.edge(partner)->weight;
  begin_exchange(partner, terms, round_deadline_, out);
}

// Of those that are over without them: the partner made its offer itself, or is not waited for any longer.
void Peer::withdraw_asks(std::vector<Action>& out) {
  std::erase_if(in_flight_, [&](const InFlight& exchange) {
    const Rounds::Edge* const edge = rounds_.edge(exchange.partner);
    const bool wanted = edge != nullptr && edge->state != Rounds::Edge::State::over && edge->answered == 0;
    if (!exchange.asks || wanted) return false;
    out.push_back(AbortExchange{exchange.exchange});
    ++exchanges_.aborted;
    return true;
  });
}

void Peer::open_round(std::vector<Action>& out) {
  if (phase() == Phase::training) out.push_back(PauseTraining{});
  pacer_->taken(now_, membership_.self().steps);
  const std::uint64_t round = rounds_.begin();
  out.push_back(BeginRound{round});
  std::vector<Rounds::Edge> edges;
  for (const auto& [id, weight] : partners_->neighbors(round, membership_))
    edges.push_back({id, static_cast<float>(weight), options_.id < id});
  rounds_.open(std::move(edges), partners_->period() - 1);
  round_deadline_ = now_ + options_.round_limit;
  round_doubt_ = now_ + options_.exchange_doubt;
  round_version_ = membership_.version();
  round_settles_ = phase() == Phase::settling;
  round_met_anyone_ = false;
}

// Who is dead, finished or quarantined will not come; who lets this peer wait is asked; and nobody is waited
// for beyond all measure.
void Peer::pass_over_the_absent(std::vector<Action>& out) {
  using State = Rounds::Edge::State;
  const bool doubting = round_doubt_ <= now_;
  if (doubting) round_doubt_ = now_ + options_.exchange_doubt;
  std::vector<PeerId> absent, silent, asking;
  for (const Rounds::Edge& edge : rounds_.edges()) {
    if (edge.state == State::over) continue;
    const InFlight* const mine = in_flight_with(edge.partner);
    const bool met = mine != nullptr ? mine->advanced : edge.state == State::under_way;
    const Record* const record = membership_.find(edge.partner);
    const bool comes = record != nullptr && record->member.liveness == wire::Liveness::alive &&
                       (met || (record->member.phase != Phase::finished &&
                                record->quarantined_until <= now_ && round_deadline_ > now_));
    if (!comes) absent.push_back(edge.partner);
    if (!comes || !doubting) continue;
    membership_.doubt(now_, edge.partner, out);
    const bool awaited = edge.state == State::waiting && !edge.own && rounds_.in_step(edge.partner);
    if (awaited && mine == nullptr) silent.push_back(edge.partner);
    const auto held = rounds_.held_of(edge.partner);
    const bool unheard = mine != nullptr && !mine->advanced && mine->begun + options_.exchange_doubt <= now_;
    if (edge.own && unheard && held && held->round == rounds_.current()) asking.push_back(edge.partner);
  }
  for (const PeerId partner : absent) {
    if (const InFlight* const mine = in_flight_with(partner)) {
      abort_exchange(mine->exchange, out);
    } else {
      rounds_.meet(partner, false);
    }
  }
  for (const PeerId partner : silent) {
    begin_along(partner, out);
    in_flight_.back().asks = true;
  }
  for (const PeerId partner : asking) {  // it is there, and has not got this peer's offer
    const std::uint64_t lost = in_flight_with(partner)->exchange;
    static_cast<void>(take_in_flight(lost));
    out.push_back(AbortExchange{lost});
    ++exchanges_.aborted;
    rounds_.edge(partner)->state = State::waiting;
  }
  answer_held(out);
  if (round_deadline_ <= now_) round_deadline_ = kNever;
}

// When members come and go, the graph changes under the round. Who is no neighbor any more may have taken
// another round for the last with this peer, and would be waited for in vain; and who is one now may wait for
// this peer in an earlier round, until it hears from it.
void Peer::follow_links() {
  if (round_version_ == membership_.version()) return;
  round_version_ = membership_.version();
  std::vector<Rounds::Edge> edges = rounds_.edges();
  const auto linked = partners_->neighbors(rounds_.current(), membership_);
  for (Rounds::Edge& edge : edges) {
    const bool stays =
        std::any_of(linked.begin(), linked.end(), [&](const auto& it) { return it.id == edge.partner; });
    if (edge.state == Rounds::Edge::State::waiting && !stays) edge.state = Rounds::Edge::State::over;
  }
  for (const auto& [id, weight] : linked) {
    if (rounds_.edge(id) == nullptr) edges.push_back({id, static_cast<float>(weight), options_.id < id});
  }
  rounds_.close();
  rounds_.open(std::move(edges), partners_->period() - 1);  // the same round
}

void Peer::answer_held(std::vector<Action>& out) {
  while (const auto offer = rounds_.ripe()) {
    if (rounds_.judge(*offer) == Rounds::Verdict::accept) {
      accept(*offer, out);
    } else {
      refuse(*offer, RefusalReason::out_of_step, out);
    }
  }
}

void Peer::close_round(std::vector<Action>& out) {
  rounds_.close();
  // A step that landed meanwhile had begun before the round, and is none towards the next: else this peer
  // would be a round ahead of its neighbors for ever.
  if (rules_->pace.kind == Pace::Kind::steps) pacer_->taken(now_, membership_.self().steps);
  if (phase() == Phase::training) out.push_back(ResumeTraining{});
  if (round_settles_ && settling_left_ > 0) --settling_left_;
  if (!round_met_anyone_) pacer_->hold_off(now_, options_.exchange_hold_off);
}

// No round goes on, and nobody is to wait for this peer.
void Peer::abandon_round(std::vector<Action>& out) {
  rounds_.close();
  while (const auto offer = rounds_.any_held()) {
    rounds_.withdraw(offer->from, offer->exchange);
    refuse(*offer, RefusalReason::not_ready, out);
  }
}

}  // namespace starling::gossip

#include "gossip/meeting/encounters.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {

using wire::Phase;
using wire::RefusalReason;
using State = Rounds::Edge::State;

LockStep::LockStep(RunState& run, Ending& ending, Exchanges& exchanges)
    : Encounters(run, ending, exchanges, run.rules->pace),
      partners_(run.rules->topology, run.rules->partners, run.stream(RandomStream::partners)),
      waiting_(run.options.round_limit, run.options.membership.guards.pauses) {}

void LockStep::begin_in_step() {
  for (const Record& record : run_.membership.others())
    if (record.is_live() && record.member.phase == Phase::training) rounds_.comes_in(record.member.id, 0);
}

// ---- the round ----

void LockStep::tick(Actions& out) {
  if (run_.diverged || run_.phase() == Phase::joining) return;
  if (run_.leaving || run_.phase() == Phase::finished) return abandon_round(out);
  for (;;) {
    answer_held(out);
    if (!rounds_.is_open()) {
      if (!moment_is_due()) return;
      open_round(out);
      answer_held(out);
    }
    pass_over_the_absent(out);
    follow_links();
    begin_own(out);
    withdraw_asks(out);
    if (!rounds_.all_over()) return;
    close_round(out);
  }
}

void LockStep::open_round(Actions& out) {
  if (run_.phase() == Phase::training) out.push_back(PauseTraining{});
  pacer_.taken(run_.now, run_.steps());
  out.push_back(BeginRound{rounds_.begin()});
  std::vector<Rounds::Edge> edges = links();
  rounds_.open(std::move(edges), partners_.period() - 1);
  waiting_.round_begins(run_.now, met_anyone_ || passed_over_);
  passed_over_ = false;
  deadline_ = run_.now + waiting_.limit();
  doubt_ = run_.now + run_.options.exchange_doubt;
  version_ = run_.membership.version();
  settles_ = run_.phase() == Phase::settling;
  met_anyone_ = false;
}

// Those of this round, as the membership is now.
std::vector<Rounds::Edge> LockStep::links() {
  std::vector<Rounds::Edge> links;
  for (const auto& [id, weight] : partners_.neighbors(round(), run_.membership)) {
    Rounds::Edge edge{.partner = id, .weight = static_cast<float>(weight)};
    edge.awaited = waiting_.awaits(run_.now, id);
    edge.own = edge.awaited && run_.id() < id;
    links.push_back(edge);
  }
  return links;
}

// All at once: one after the other, a round would be a chain through the whole graph.
void LockStep::begin_own(Actions& out) {
  while (Rounds::Edge* const edge = rounds_.next_own()) {
    edge->state = State::under_way;
    begin_along(*edge, out);
  }
}

InFlight& LockStep::begin_along(Rounds::Edge& edge, Actions& out) {
  Terms terms = terms_with(edge.partner, round());
  terms.weight = edge.weight;
  return exchanges_.begin(edge.partner, terms, deadline_, out);
}

// Dead and quarantined neighbors will not come, nor will finished ones, except to exchanges under way; those
// that keep this peer waiting are asked; and no wait lasts beyond the round's deadline.
void LockStep::pass_over_the_absent(Actions& out) {
  const Duration doubt = run_.options.exchange_doubt;
  const bool doubting = doubt_ <= run_.now;
  if (doubting) doubt_ = run_.now + doubt;
  std::vector<PeerId> absent, silent, unheard;
  for (const Rounds::Edge& edge : rounds_.edges()) {
    if (edge.state == State::over) continue;
    const InFlight* const own = exchanges_.with(edge.partner);
    if (!will_come(edge, own)) {
      absent.push_back(edge.partner);
      continue;
    }
    if (!doubting) continue;
    run_.membership.doubt(run_.now, edge.partner, out);
    const bool awaited = edge.state == State::waiting && !edge.own && rounds_.awaits(edge);
    if (awaited && own == nullptr) silent.push_back(edge.partner);
    const bool no_sign = own != nullptr && !own->advanced && own->begun + doubt <= run_.now;
    if (edge.own && no_sign && rounds_.holds(edge.partner, round())) unheard.push_back(edge.partner);
  }
  for (const PeerId partner : absent) {
    if (const InFlight* const own = exchanges_.with(partner)) {
      give_up(own->exchange, out);
    } else {
      miss(partner, out);
    }
  }
  for (const PeerId partner : silent) begin_along(*rounds_.edge(partner), out).asks = true;
  // These are there and have not received this peer's offer, but made their own.
  for (const PeerId partner : unheard) {
    static_cast<void>(exchanges_.abort(exchanges_.with(partner)->exchange, out));
    rounds_.edge(partner)->state = State::waiting;
  }
  answer_held(out);
  // Those that are left have been met. A neighbor that is linked later has as much time.
  if (deadline_ <= run_.now) deadline_ = run_.now + waiting_.limit();
}

// Nothing was or will be exchanged with this neighbor in the round. If it let the peer wait for all the time
// that a round has, further rounds do not wait for it.
void LockStep::miss(PeerId partner, Actions& out) {
  const Rounds::Edge* const edge = rounds_.edge(partner);
  const Record* const record = run_.membership.find(partner);
  const Duration waited = waiting_.waited(run_.now);
  const bool lives = record != nullptr && record->responds() && record->member.phase != Phase::finished;
  if (edge->awaited && lives && waited >= waiting_.limit()) {
    if (edge->answered != 0) exchanges_.forget_answer(partner, edge->answered);
    pass_over(waiting_, partner, waited, out);
    passed_over_ = true;
  }
  rounds_.meet(partner, Rounds::Met::failed);
}

void LockStep::met(PeerId partner) {
  rounds_.meet(partner, Rounds::Met::completed);
  waiting_.worked(run_.now, partner);
  met_anyone_ = true;
}

bool LockStep::will_come(const Rounds::Edge& edge, const InFlight* own) const {
  const Record* const record = run_.membership.find(edge.partner);
  if (record == nullptr || !record->responds()) return false;
  // This peer does not learn how far an exchange is that the other one began.
  const bool answers = edge.state == State::under_way && (deadline_ > run_.now || !waiting_.is_known());
  const bool met = own != nullptr ? own->advanced : answers;
  // The news that a neighbor has finished may overtake its replies. It has answered this peer's exchange, or
  // it rejects it.
  const bool ends = own != nullptr || record->member.phase != Phase::finished;
  return met || (ends && record->quarantined_until <= run_.now && deadline_ > run_.now);
}

// When members come and go, the graph changes under the round. A former neighbor may consider an earlier
// round its last with this peer, and would be awaited in vain. A new neighbor may wait for this peer in an
// earlier round, until it receives an offer or a rejection.
void LockStep::follow_links() {
  if (version_ == run_.membership.version()) return;
  version_ = run_.membership.version();
  std::vector<Rounds::Edge> edges = rounds_.edges();
  const std::vector<Rounds::Edge> linked = links();
  for (Rounds::Edge& edge : edges) {
    const bool stays = std::ranges::find(linked, edge.partner, &Rounds::Edge::partner) != linked.end();
    if (edge.state == State::waiting && !stays) edge.state = State::over;
  }
  for (const Rounds::Edge& edge : linked)
    if (rounds_.edge(edge.partner) == nullptr) edges.push_back(edge);
  rounds_.close();
  rounds_.open(std::move(edges), partners_.period() - 1);  // the same round
}

void LockStep::close_round(Actions& out) {
  rounds_.close();
  // A step that landed during the round began before it and does not count towards the next. Otherwise this
  // peer would stay a round ahead of its neighbors.
  if (run_.rules->pace.kind == Pace::Kind::steps) pacer_.taken(run_.now, run_.steps());
  if (run_.phase() == Phase::training) out.push_back(ResumeTraining{});
  if (settles_) ending_.exchange_settled();
  if (!met_anyone_) hold_off();
}

// Ends the open round, and the wait of peers whose offers are held.
void LockStep::abandon_round(Actions& out) {
  rounds_.close();
  while (const auto offer = rounds_.take_any()) reject(*offer, RefusalReason::not_ready, out);
}

// ---- this peer's own exchanges ----

void LockStep::advanced(const ExchangeAdvanced& advanced) {
  const InFlight* const exchange = exchanges_.advanced(advanced);
  if (exchange == nullptr || !exchange->asks) return;
  if (Rounds::Edge* const edge = rounds_.edge(exchange->partner)) edge->state = State::under_way;
}

void LockStep::ended(const ExchangeEnded& ended, Actions& out) {
  const auto exchange = exchanges_.ended(ended, out);
  if (!exchange) return;
  const PeerId partner = exchange->partner;
  if (ended.outcome == Outcome::completed) {
    if (rounds_.edge(partner) != nullptr) {
      met(partner);
    } else if (exchange->settles) {
      ending_.exchange_settled();
    }
    return;
  }
  const bool rejected = ended.outcome == Outcome::rejected;
  if (rejected) rounds_.left_behind(ended.round);
  // A partner that was asked and has not answered yet is asked again in a moment.
  if (exchange->asks && !exchange->advanced && ended.outcome == Outcome::aborted) return;
  ending_.last_exchange_failed();
  failed(partner, out);
  if (exchange->asks && rejected && ended.round > rounds_.current()) rounds_.comes_in(partner, ended.round);
}

void LockStep::failed(PeerId partner, Actions& out) {
  if (rounds_.edge(partner) == nullptr) return Encounters::failed(partner);
  run_.membership.exchange_aborted(run_.now, partner);
  miss(partner, out);
}

// Withdraws this peer's asks along links that are over without them: the partner made its own offer, or is
// not waited for any longer.
void LockStep::withdraw_asks(Actions& out) {
  std::vector<std::uint64_t> unwanted;
  for (const InFlight& exchange : exchanges_.in_flight()) {
    const Rounds::Edge* const edge = rounds_.edge(exchange.partner);
    const bool wanted = edge != nullptr && edge->state != State::over && edge->answered == 0;
    if (exchange.asks && !wanted) unwanted.push_back(exchange.exchange);
  }
  for (const std::uint64_t exchange : unwanted) static_cast<void>(exchanges_.abort(exchange, out));
}

// ---- others' ----

// One offer from each neighbor in a round: this bounds the held ones.
void LockStep::offered(const Offer& offer, Actions& out) {
  if (const auto why = objection_to(offer)) return reject(offer, *why, out);
  const bool known = run_.membership.find(offer.from) != nullptr;
  if (!known || run_.phase() == Phase::finished || run_.leaving)
    return reject(offer, RefusalReason::not_ready, out);
  // A partner makes one exchange at a time with this peer: it has given up an earlier one that is still
  // answered.
  const Rounds::Edge* const edge = rounds_.edge(offer.from);
  if (edge != nullptr && edge->state == State::under_way && edge->answered != 0 &&
      edge->answered < offer.exchange) {
    exchanges_.forget_answer(offer.from, edge->answered);
    rounds_.meet(offer.from, Rounds::Met::failed);
  }
  switch (rounds_.judge(offer)) {
    case Verdict::accept:
      return accept(offer, out);
    case Verdict::reject:
      return reject(offer, RefusalReason::out_of_step, out);
    case Verdict::hold:
      // Only the latest offer of each partner: it has given up an earlier one.
      if (const auto earlier = rounds_.take_held_of(offer.from))
        reject(*earlier, RefusalReason::out_of_step, out);
      rounds_.hold(offer);
  }
}

void LockStep::accept(const Offer& offer, Actions& out) {
  Terms terms = terms_with(offer.from, round());
  if (Rounds::Edge* const edge = rounds_.edge(offer.from)) {
    edge->state = State::under_way;
    edge->answered = offer.exchange;
    terms.weight = edge->weight;
    withdraw_asks(out);
  }
  exchanges_.accept(offer, terms, out);
}

void LockStep::answer_held(Actions& out) {
  while (const auto offer = rounds_.take_ripe()) {
    if (rounds_.judge(*offer) == Verdict::accept)
      accept(*offer, out);
    else
      reject(*offer, RefusalReason::out_of_step, out);
  }
}

void LockStep::answer_ended(const AnswerEnded& ended, Actions& out) {
  if (rounds_.withdraw(ended.from, ended.exchange)) return;
  if (!exchanges_.answer_ended(ended, out)) return;
  const Rounds::Edge* const edge = rounds_.edge(ended.from);
  if (edge == nullptr || edge->state != State::under_way || edge->answered != ended.exchange) return;
  if (ended.outcome == Outcome::completed)
    met(ended.from);
  else
    rounds_.meet(ended.from, Rounds::Met::failed);
}

}  // namespace starling::gossip

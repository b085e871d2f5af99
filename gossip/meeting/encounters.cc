#include "gossip/meeting/encounters.h"

namespace starling::gossip {

using wire::Phase;
using wire::RefusalReason;

std::optional<RefusalReason> Encounters::objection_to(const Offer& offer) const {
  const Record* const initiator = run_.membership.find(offer.from);
  if (run_.phase() == Phase::joining || run_.diverged) return RefusalReason::not_ready;
  // Members introduce themselves before they exchange; a stranger is not answered.
  if (initiator == nullptr) return RefusalReason::not_ready;
  if (initiator->observes) return RefusalReason::not_allowed;
  if (initiator->quarantined_until > run_.now) return RefusalReason::quarantined;
  return std::nullopt;
}

Instant Encounters::next_moment() const {
  if (run_.phase() == Phase::training) return pacer_.next_deadline(run_.now);
  if (run_.phase() == Phase::settling && pacer_.not_before() > run_.now) return pacer_.not_before();
  return kNever;
}

Terms Encounters::terms_with(PeerId partner, std::uint64_t round) const {
  Terms terms{.round = round};
  const Record* const record = run_.membership.find(partner);
  if (record != nullptr && run_.rule().shares)
    terms.own_share = own_share(run_.rules->shares, run_.now, run_.membership.self(), *record);
  return terms;
}

void Encounters::pass_over(RoundWaits& waiting, PeerId partner, Duration waited, Actions& out) const {
  const Duration pause = waiting.pass_over(run_.now, partner, waited);
  const Record* const record = run_.membership.find(partner);
  if (record == nullptr) return;
  const auto seconds = [](Duration d) {
    return std::to_string(std::chrono::round<std::chrono::seconds>(d).count());
  };
  out.push_back(Notice{Notice::What::passed_over, partner,
                       described(record->member) + " did not answer for " + seconds(waited) +
                           " s: this peer does not wait for it for " + seconds(pause) + " s"});
}

// ---- Whenever: this peer's own exchanges ----

Whenever::Whenever(RunState& run, Ending& ending, Exchanges& exchanges)
    : Encounters(run, ending, exchanges, pace_of_fragment(run.rule(), run.rules->pace, run.rules->fragments)),
      fragments_(run.rules->fragments),
      partners_(run.rules->topology, run.rules->partners, run.stream(RandomStream::partners)) {}

// The terms of an exchange that its initiator begins in this turn, which decides the fragment on both sides.
Terms Whenever::terms_of(PeerId partner, std::uint64_t turn) const {
  Terms terms = terms_with(partner, fragments_ > 1 ? turn : 0);
  terms.newcomer = is_newcomer(partner);
  terms.part = {static_cast<std::uint32_t>(turn % fragments_), fragments_};
  if (run_.rule().keeps ==
      Keeps::weighted_sum) {  // n peers have the weight n, and each sends half of its own
    terms.weight = static_cast<float>(1 + run_.membership.view().members.live()) / 2;
    terms.returns = !partners_.is_directed();
  }
  return terms;
}

void Whenever::tick(Actions& out) {
  if (!due()) return;
  if (run_.phase() == Phase::settling && !run_.leaving && !ending_.try_settling(out)) return;
  const auto partner = choose();
  pacer_.taken(run_.now, run_.steps());
  ending_.begin_last_exchange();
  if (!partner) return hold_off();
  if (fragments_ > 1) ++turn_;
  acceptance_.own(run_.now, is_newcomer(*partner));
  const Instant deadline = run_.now + exchanges_.patience().limit(*partner);
  exchanges_.begin(*partner, terms_of(*partner, turn_), deadline, out);
}

// Many newcomers are not to keep this peer from the others: it draws again. If it knows no others, it takes
// one of them.
std::optional<PeerId> Whenever::choose() {
  constexpr int kDraws = 256;
  auto partner = partners_.choose(run_.now, run_.membership);
  if (acceptance_.may_begin_with_newcomer()) return partner;
  for (int draw = 1; draw < kDraws && partner && is_newcomer(*partner); ++draw)
    partner = partners_.choose(run_.now, run_.membership);
  return partner;
}

bool Whenever::is_newcomer(PeerId member) const {
  return run_.rule().limited &&
         acceptance_.is_newcomer(run_.now, run_.membership.find(member)->met.value_or(run_.now));
}

void Whenever::ended(const ExchangeEnded& ended, Actions& out) {
  const auto exchange = exchanges_.ended(ended, out);
  if (!exchange) return;
  if (ended.outcome == Outcome::completed) {
    partners_.met(run_.membership, exchange->partner, run_.now - exchange->begun);
    if (exchange->settles) ending_.exchange_settled();
    return;
  }
  ending_.last_exchange_failed();  // a leaving peer tries another partner
  failed(exchange->partner);
}

void Whenever::give_up(std::uint64_t exchange, Actions& out) {
  const InFlight given_up = exchanges_.abort(exchange, out);
  partners_.met(run_.membership, given_up.partner, run_.now - given_up.begun);
  failed(given_up.partner);
}

// ---- Whenever: others' ----

void Whenever::offered(const Offer& offer, Actions& out) {
  if (const auto why = objection_to(offer)) return reject(offer, *why, out);
  if (exchanges_.answering() >= run_.options.answers_max) return reject(offer, RefusalReason::busy, out);
  if (run_.rule().limited && comes_too_often(offer.from)) return reject(offer, RefusalReason::busy, out);
  exchanges_.accept(offer, terms_of(offer.from, offer.round), out);
}

bool Whenever::comes_too_often(PeerId partner) {
  const Instant met = run_.membership.find(partner)->met.value_or(run_.now);
  return !acceptance_.take(run_.now, partner, met, partners_.share_of(partner, run_.membership));
}

}  // namespace starling::gossip

#include "gossip/meeting/exchanges.h"

#include <algorithm>

namespace starling::gossip {

// ---- this peer's own ----

InFlight& Exchanges::begin(PeerId partner, const Terms& terms, Instant deadline, Actions& out) {
  ++counts_.begun;
  in_flight_.push_back({.exchange = ++last_exchange_,
                        .partner = partner,
                        .begun = run_.now,
                        .deadline = deadline,
                        .doubt = run_.now + run_.options.exchange_doubt,
                        .heard = run_.now,
                        .settles = run_.phase() == wire::Phase::settling});
  out.push_back(BeginExchange{
      last_exchange_, run_.membership.view().bulk_endpoint(run_.membership.find(partner)->member), terms});
  return in_flight_.back();
}

InFlight Exchanges::take(std::uint64_t exchange) {
  const auto found = std::ranges::find(in_flight_, exchange, &InFlight::exchange);
  const InFlight taken = *found;
  in_flight_.erase(found);
  return taken;
}

InFlight* Exchanges::advanced(const ExchangeAdvanced& advanced) {
  InFlight* const exchange = find(advanced.exchange);
  if (exchange == nullptr) return nullptr;
  // A partner that may wait for others first sends nothing. That silence does not measure the link.
  const bool waited = run_.rule().lets_wait() && !exchange->advanced;
  if (!waited) exchange->silence = std::max(exchange->silence, run_.now - exchange->heard);
  exchange->heard = run_.now;
  exchange->advanced = true;
  exchange->deadline = run_.now + patience_.limit(exchange->partner);
  return exchange;
}

std::optional<InFlight> Exchanges::ended(const ExchangeEnded& ended, Actions& out) {
  if (find(ended.exchange) == nullptr) return std::nullopt;
  const InFlight exchange = take(ended.exchange);
  if (ended.outcome == Outcome::completed) {
    ++counts_.completed;
    run_.membership.exchange_completed(exchange.partner, true);
    if (exchange.advanced || !run_.rule().lets_wait())
      patience_.went_well(exchange.partner, std::max(exchange.silence, run_.now - exchange.heard));
  } else {
    ++(ended.outcome == Outcome::rejected ? counts_.rejected : counts_.aborted);
  }
  if (ended.outcome == Outcome::poisoned) run_.membership.poisoned_by(run_.now, exchange.partner, out);
  return exchange;
}

std::vector<std::uint64_t> Exchanges::lost(Actions& out) {
  std::vector<std::uint64_t> lost;
  for (InFlight& exchange : in_flight_) {
    if (exchange.doubt <= run_.now) {
      exchange.doubt = kNever;
      run_.membership.doubt(run_.now, exchange.partner, out);
    }
    const Record* const partner = run_.membership.find(exchange.partner);
    const bool gone = partner == nullptr || !partner->responds();
    const bool late = exchange.deadline <= run_.now;
    if (late) patience_.timed_out(exchange.partner);
    if (late || gone) lost.push_back(exchange.exchange);
  }
  return lost;
}

// ---- others' ----

bool Exchanges::answer_ended(const AnswerEnded& ended, Actions& out) {
  if (!forget_answer(ended.from, ended.exchange)) return false;
  if (ended.outcome == Outcome::completed) {
    ++counts_.answered;
    run_.membership.exchange_completed(ended.from, false);
  }
  if (ended.outcome == Outcome::poisoned) run_.membership.poisoned_by(run_.now, ended.from, out);
  return true;
}

}  // namespace starling::gossip

#include "gossip/encounters.h"

#include "gossip/shares.h"

namespace starling::gossip {

using wire::Phase;
using wire::RefusalReason;

void Encounters::start(std::vector<Action>& out) {
  restart();
  if (!end_reached()) out.push_back(StartTraining{!serves()});
}

void Encounters::give_up(std::uint64_t exchange, std::vector<Action>& out) {
  failed(exchanges_.abort(exchange, out).partner);
}

void Encounters::failed(PeerId partner) {
  run_.membership.exchange_aborted(run_.now, partner);
  hold_off();
}

bool Encounters::turn_away(const Offer& offer, std::vector<Action>& out) const {
  const Record* const initiator = run_.membership.find(offer.from);
  const bool ready = run_.phase() != Phase::joining && !run_.diverged;
  const bool quarantined = initiator != nullptr && initiator->quarantined_until > run_.now;
  if (ready && !quarantined) return false;
  reject(offer, ready ? RefusalReason::quarantined : RefusalReason::not_ready, out);
  return true;
}

bool Encounters::moment_is_due() const {
  if (run_.phase() == Phase::training) return pacer_.due(run_.now, run_.steps());
  return ending_.is_settling() && pacer_.not_before() <= run_.now;
}

Instant Encounters::next_moment() const {
  if (run_.phase() == Phase::training) return pacer_.next_deadline(run_.now);
  if (run_.phase() == Phase::settling && pacer_.not_before() > run_.now) return pacer_.not_before();
  return kNever;
}

Terms Encounters::terms_with(PeerId partner) const {
  Terms terms;
  terms.round = round();
  const Record* const record = run_.membership.find(partner);
  if (record != nullptr && run_.rule().shares)
    terms.own_share = own_share(run_.rules->shares, run_.now, run_.membership.self(), *record);
  return terms;
}

}  // namespace starling::gossip

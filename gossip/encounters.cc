#include "gossip/encounters.h"

namespace starling::gossip {

using wire::Phase;
using wire::RefusalReason;

std::optional<RefusalReason> Encounters::objection_to(const Offer& offer) const {
  const Record* const initiator = run_.membership.find(offer.from);
  if (run_.phase() == Phase::joining || run_.diverged) return RefusalReason::not_ready;
  if (initiator != nullptr && initiator->quarantined_until > run_.now) return RefusalReason::quarantined;
  return std::nullopt;
}

Instant Encounters::next_moment() const {
  if (run_.phase() == Phase::training) return pacer_.next_deadline(run_.now);
  if (run_.phase() == Phase::settling && pacer_.not_before() > run_.now) return pacer_.not_before();
  return kNever;
}

Terms Encounters::terms_with(PeerId partner, std::uint64_t round) const {
  Terms terms;
  terms.round = round;
  const Record* const record = run_.membership.find(partner);
  if (record != nullptr && run_.rule().shares)
    terms.own_share = own_share(run_.rules->shares, run_.now, run_.membership.self(), *record);
  return terms;
}

}  // namespace starling::gossip

#include "gossip/ending.h"

#include <algorithm>
#include <bit>

namespace starling::gossip {

using wire::Phase;

bool Ending::reached() const {
  const End& end = run_.rules->end;
  return requested_ || (end.swarm_samples && run_.membership.swarm_samples() >= *end.swarm_samples) ||
         (end.steps && run_.steps() >= *end.steps) || (end.time && run_.now - run_.run_start >= *end.time);
}

Instant Ending::next_deadline() const {
  const Instant next = std::min(linger_until_, leave_by_);
  if (run_.phase() != Phase::training || !run_.rules->end.time) return next;
  return std::min(next, run_.run_start + *run_.rules->end.time);
}

void Ending::settle(std::uint64_t exchanges) {
  left_ = exchanges;
  tries_ = 4 * exchanges;
}

std::uint64_t Ending::exchanges_to_settle() const {
  const std::uint64_t live = 1 + run_.membership.live_others();
  return live < 2 ? 0 : 2 + static_cast<std::uint64_t>(std::bit_width(live - 1));
}

bool Ending::try_settling() {
  if (tries_ == 0) {
    left_ = 0;  // nobody is left to settle with
    return false;
  }
  --tries_;
  return true;
}

bool Ending::may_stop(bool answering) const {
  if (run_.now >= linger_until_) return true;
  const auto& others = run_.membership.others();
  return !answering && std::none_of(others.begin(), others.end(), [](const Record& record) {
    return record.is_live() && record.member.phase != Phase::finished;
  });
}

void Ending::leave() {
  run_.leaving = true;
  leave_by_ = run_.now + run_.options.leave_limit;
}

}  // namespace starling::gossip

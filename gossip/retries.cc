#include "gossip/retries.h"

#include <algorithm>

namespace starling::gossip {

namespace {

constexpr std::size_t kRetriesMax = 3;  // at a time

}  // namespace

void Retries::add_contact(const Address& address) {
  if (address == view_.self.address || contacts_.size() >= kContactsMax) return;
  if (std::find(contacts_.begin(), contacts_.end(), address) == contacts_.end()) contacts_.push_back(address);
}

void Retries::restart(Instant now) {
  delay_ = view_.options.retry_min;
  next_ = std::min(next_, now + delay_);
}

void Retries::tick(Instant now, std::vector<Action>& out) {
  if (next_ > now) return;
  ping_failed(out);
  ping_contacts(out);
  next_ = now + view_.varied(delay_);
  delay_ = std::min(2 * delay_, view_.options.retry_max);
}

void Retries::ping_failed(std::vector<Action>& out) {
  std::vector<const Record*> failed;
  for (const Record& record : view_.members.records()) {
    if (record.member.liveness == wire::Liveness::failed && !record.superseded) failed.push_back(&record);
  }
  for (std::size_t k = 0; k < kRetriesMax && !failed.empty(); ++k) {
    const std::size_t drawn = view_.random.below(failed.size());
    const wire::Member& member = failed[drawn]->member;
    // Without a target, so that any instance at this address answers. A member that is back finds out that
    // others consider it failed.
    out.push_back(Send{member.address, wire::Ping{++view_.last_sequence, {}, {member, view_.self}}});
    failed[drawn] = failed.back();
    failed.pop_back();
  }
}

void Retries::ping_contacts(std::vector<Action>& out) {
  const auto& records = view_.members.records();
  for (std::size_t k = 0; k < kRetriesMax && k < contacts_.size(); ++k) {
    const Address& address = contacts_[view_.random.below(contacts_.size())];
    const bool met = std::any_of(records.begin(), records.end(), [&](const Record& record) {
      return record.is_live() && record.member.address == address;
    });
    if (!met) out.push_back(Send{address, wire::Ping{++view_.last_sequence, {}, {view_.self}}});
  }
}

}  // namespace starling::gossip

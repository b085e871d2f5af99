#include "gossip/views.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {

using wire::Member;

namespace {

constexpr std::size_t kViewMax = 2048;  // members in one View; the next Digest finds the rest

}  // namespace

void Views::start(Instant now) {
  next_ = view_.jittered(now, view_.options.sync_min);
}

void Views::tick(Instant now, Circle& circle, std::vector<Action>& out) {
  if (next_ > now) return;
  next_ = now + view_.varied(delay_);
  if (const Record* const to = circle.draw()) sync_with(to->member.address, out);
}

void Views::sync_with(const Address& address, std::vector<Action>& out) const {
  out.push_back(Send{address, wire::Digest{view_.digest(), view_.topology}});
}

wire::View Views::answer(const wire::Digest& digest) const {
  const auto own = view_.digest();
  std::uint64_t differing = 0;
  for (std::size_t k = 0; k < own.size() && k < digest.buckets.size(); ++k) {
    if (own[k] != digest.buckets[k]) differing |= std::uint64_t{1} << k;
  }
  return {differing, differing != 0, members_in(differing), view_.topology};
}

wire::View Views::answer(const wire::View& theirs) const {
  std::vector<std::pair<PeerId, std::uint64_t>> known;
  known.reserve(theirs.members.size());
  for (const Member& member : theirs.members) known.emplace_back(member.id, Members::hash_of(member));
  std::sort(known.begin(), known.end());
  std::vector<Member> members = members_in(theirs.buckets);
  std::erase_if(members, [&](const Member& member) {
    return std::binary_search(known.begin(), known.end(), std::pair(member.id, Members::hash_of(member)));
  });
  return {theirs.buckets, false, std::move(members), view_.topology};
}

void Views::adapt(Instant now, const wire::View& theirs) {
  if (theirs.buckets == 0) {
    delay_ = std::min(2 * delay_, view_.options.sync_max);
  } else {
    delay_ = view_.options.sync_min;
    next_ = std::min(next_, now + delay_);
  }
}

std::vector<Member> Views::members_in(std::uint64_t buckets) const {
  std::vector<Member> members;
  if (buckets == 0) return members;
  const auto wanted = [&](PeerId id) { return (buckets >> Members::bucket_of(id) & 1) != 0; };
  if (wanted(view_.self.id)) members.push_back(view_.self);
  for (const Record& record : view_.members.records()) {
    if (members.size() >= kViewMax) break;
    if (record.is_live() && wanted(record.member.id)) members.push_back(record.member);
  }
  return members;
}

std::vector<Member> Views::introduction(PeerId joiner) {
  std::vector<Member> members{view_.self};
  // Consecutive members from a random one: the introductions of many joiners together cover the whole swarm.
  const std::size_t n = view_.members.size();
  const std::size_t first = view_.members.lower_bound(PeerId{view_.random.bits()});
  for (std::size_t i = 0; i < n && members.size() < kWelcomeMax; ++i) {
    const Record& record = view_.members.at((first + i) % n);
    if (record.is_live() && record.member.id != joiner) members.push_back(record.member);
  }
  std::vector<const Record*> dead;
  for (const Record& record : view_.members.records()) {
    if (!record.is_live() && !record.superseded) dead.push_back(&record);
  }
  std::stable_sort(dead.begin(), dead.end(),
                   [](const Record* a, const Record* b) { return a->changed > b->changed; });
  if (dead.size() > kDeadMax) dead.resize(kDeadMax);
  for (const Record* record : dead) members.push_back(record->member);
  return members;
}

}  // namespace starling::gossip

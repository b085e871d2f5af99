#include "gossip/members/members.h"

#include <utility>

#include "base/check.h"

namespace starling::gossip {

const Record* Members::find(PeerId id) const {
  const std::size_t index = lower_bound(id);
  return index < ids_.size() && ids_[index] == id ? &records_[index] : nullptr;
}

Record* Members::find(PeerId id) { return const_cast<Record*>(std::as_const(*this).find(id)); }

Record& Members::insert(Record record) {
  const PeerId id = record.member.id;
  const auto index = static_cast<std::ptrdiff_t>(lower_bound(id));
  STARLING_CHECK(find(id) == nullptr);
  digest_[bucket_of(id)] += hash_of(record.member);
  add_samples(record.member.samples);
  if (record.is_live()) {
    ++live_;
    ++version_;
  }
  ids_.insert(ids_.begin() + index, id);
  homes_.insert(homes_.begin() + index, hash_of(record.member.address));
  return *records_.insert(records_.begin() + index, std::move(record));
}

void Members::erase(PeerId id) {
  const auto index = static_cast<std::ptrdiff_t>(lower_bound(id));
  const Record* const record = find(id);
  STARLING_CHECK(record != nullptr);
  digest_[bucket_of(id)] -= hash_of(record->member);
  if (record->is_live()) {
    --live_;
    ++version_;
  }
  ids_.erase(ids_.begin() + index);
  homes_.erase(homes_.begin() + index);
  records_.erase(records_.begin() + index);
}

bool Members::erase_longest_dead() {
  const Record* oldest = nullptr;
  for (const Record& record : records_)
    if (!record.is_live() && (oldest == nullptr || record.changed < oldest->changed)) oldest = &record;
  if (oldest != nullptr) erase(oldest->member.id);
  return oldest != nullptr;
}

void Members::erase_gone(Instant until) {
  std::vector<PeerId> gone;
  for (const Record& record : records_) {
    const bool is_gone =
        record.member.liveness == wire::Liveness::left || (record.superseded && !record.is_live());
    if (is_gone && record.changed <= until) gone.push_back(record.member.id);
  }
  for (const PeerId id : gone) erase(id);
}

void Members::set_samples(Instant now, Record& record, std::uint64_t samples) {
  if (record.member.samples > 0) {
    const Duration since = now - record.samples_at;
    record.samples_every = record.samples_every.count() == 0 ? since : (3 * record.samples_every + since) / 4;
  }
  record.samples_at = now;
  add_samples(samples - record.member.samples);
  record.member.samples = samples;
}

std::uint64_t Members::retired_samples(std::span<const wire::Member> except) const {
  std::uint64_t counted = 0;
  for (const Record& record : records_) {
    const bool excepted = std::ranges::find(except, record.member.id, &wire::Member::id) != except.end();
    if (record.is_live() || excepted) counted = add_saturated(counted, record.member.samples);
  }
  return samples_ - std::min(counted, samples_);
}

std::uint64_t Members::hash_of(const wire::Member& m) {
  if (m.liveness > wire::Liveness::suspect) return 0;
  const std::array<std::uint64_t, 2> words{
      m.id.value, std::uint64_t{m.incarnation} << 8 | static_cast<std::uint64_t>(m.phase)};
  return hash64(std::as_bytes(std::span(words)));
}

std::vector<std::uint64_t> LocalView::digest() const {
  std::vector<std::uint64_t> buckets(members.digest().begin(), members.digest().end());
  buckets[Members::bucket_of(self.id)] += Members::hash_of(self);
  return buckets;
}

// ---- ways to members ----

namespace {

// The first home that responds and can be dialed, and relays if that is needed; the search begins at the
// position `first`. Null if there is none.
enum class Needed : std::uint8_t { calls, relays };
const wire::Member* find_home(const Members& members, const wire::Member& of, Needed needed,
                              std::uint64_t first) {
  for (std::size_t k = 0; k < of.homes.size(); ++k) {
    const Record* const home = members.find(of.homes[(k + first) % of.homes.size()]);
    if (home == nullptr || !home->responds() || !home->member.address) continue;
    if (needed == Needed::calls || home->member.relays > 0) return &home->member;
  }
  return nullptr;
}

}  // namespace

const wire::Member* LocalView::home_of(const wire::Member& member) const {
  return find_home(members, member, Needed::calls, last_sequence + self.id.value);
}

const wire::Member* LocalView::relay_of(const wire::Member& member) const {
  return find_home(members, member, Needed::relays, self.id.value);
}

Endpoint LocalView::control_endpoint(const wire::Member& member) const {
  if (member.address || !self.address) return endpoint_of(member);
  const wire::Member* const home = home_of(member);
  if (home == nullptr) return {member.id, {}};  // only on a link that there is
  return {member.id, home->address, Way::call, home->id, home->also};
}

Endpoint LocalView::bulk_endpoint(const wire::Member& member) const {
  // A home calls its guest itself, over the link that it has with it.
  if (!member.address && self.address && is_home_of(member)) return {member.id, {}, Way::call, member.id};
  if (member.address || self.address) return control_endpoint(member);
  const wire::Member* const relay = relay_of(member);
  if (relay == nullptr) return {member.id, {}};
  return {member.id, relay->address, Way::relay, relay->id, relay->also};
}

std::size_t LocalView::tellable() const {
  if (self.address) return members.live();
  return static_cast<std::size_t>(std::ranges::count_if(members.records(), [this](const Record& record) {
    return record.is_live() && can_tell(record.member);
  }));
}

Record* LocalView::draw_live() {
  if (tellable() == 0) return nullptr;
  constexpr int kTries = 8;
  const auto fits = [this](const Record& record) { return record.is_live() && can_tell(record.member); };
  std::size_t index = 0;
  for (int i = 0; i < kTries; ++i) {
    index = random.below(members.size());
    if (fits(members.at(index))) return &members.at(index);
  }
  while (!fits(members.at(index))) index = (index + 1) % members.size();
  return &members.at(index);
}

std::vector<PeerId> LocalView::draw_live(std::size_t count) {
  std::vector<PeerId> ids;
  if (tellable() <= count) {
    for (const Record& record : members.records())
      if (record.is_live() && can_tell(record.member)) ids.push_back(record.member.id);
    return ids;
  }
  while (ids.size() < count) {
    const PeerId id = draw_live()->member.id;
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

const Record* LocalView::draw_from_circle() {
  std::erase_if(circle, [&](PeerId id) {
    const Record* const record = members.find(id);
    return record == nullptr || !record->is_live() || !can_tell(record->member);
  });
  const std::size_t live = tellable();
  if (circle.size() < live && live <= kCircleSize) circle = draw_live(live);
  while (circle.size() < std::min(kCircleSize, live)) {
    const PeerId id = draw_live()->member.id;
    if (std::ranges::find(circle, id) == circle.end()) circle.push_back(id);
  }
  return circle.empty() ? nullptr : members.find(circle[random.below(circle.size())]);
}

}  // namespace starling::gossip

#include "gossip/members.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace starling::gossip {

std::size_t Members::lower_bound(PeerId id) const {
  return static_cast<std::size_t>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin());
}

const Record* Members::find(PeerId id) const {
  const std::size_t index = lower_bound(id);
  return index < ids_.size() && ids_[index] == id ? &records_[index] : nullptr;
}

Record* Members::find(PeerId id) {
  return const_cast<Record*>(std::as_const(*this).find(id));
}

Record& Members::insert(Record record) {
  const PeerId id = record.member.id;
  const std::size_t index = lower_bound(id);
  STARLING_CHECK(index == ids_.size() || ids_[index] != id);
  digest_[bucket_of(id)] += hash_of(record.member);
  add_samples(record.member.samples);
  if (record.is_live()) {
    ++live_;
    ++version_;
  }
  ids_.insert(ids_.begin() + static_cast<std::ptrdiff_t>(index), id);
  homes_.insert(homes_.begin() + static_cast<std::ptrdiff_t>(index), hash_of(record.member.address));
  return *records_.insert(records_.begin() + static_cast<std::ptrdiff_t>(index), std::move(record));
}

void Members::erase(PeerId id) {
  const std::size_t index = lower_bound(id);
  STARLING_CHECK(index < ids_.size() && ids_[index] == id);
  digest_[bucket_of(id)] -= hash_of(records_[index].member);
  if (records_[index].is_live()) {
    --live_;
    ++version_;
  }
  ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(index));
  homes_.erase(homes_.begin() + static_cast<std::ptrdiff_t>(index));
  records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(index));
}

bool Members::erase_longest_dead() {
  const Record* oldest = nullptr;
  for (const Record& record : records_) {
    if (!record.is_live() && (oldest == nullptr || record.changed < oldest->changed)) oldest = &record;
  }
  if (oldest == nullptr) return false;
  erase(oldest->member.id);
  return true;
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

void Members::add_samples(std::uint64_t samples) {
  samples_ = add_saturated(samples_, samples);
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
    const bool excepted = std::any_of(except.begin(), except.end(), [&](const wire::Member& member) {
      return member.id == record.member.id;
    });
    if (record.is_live() || excepted) counted = add_saturated(counted, record.member.samples);
  }
  return samples_ - std::min(counted, samples_);
}

std::size_t Members::bucket_of(PeerId id) {
  return id.value % wire::kDigestBuckets;  // ids are random
}

std::uint64_t Members::hash_of(const wire::Member& m) {
  if (m.liveness > wire::Liveness::suspect) return 0;
  const std::array<std::uint64_t, 2> words{
      m.id.value, std::uint64_t{m.incarnation} << 8 | static_cast<std::uint64_t>(m.phase)};
  return hash64(std::as_bytes(std::span(words)));
}

std::uint32_t Members::hash_of(const Address& address) {
  return static_cast<std::uint32_t>(hash64(address.host, address.port));
}

bool Record::accuse(PeerId accuser) {
  const auto end = accusers.begin() + accuser_count;
  if (accuser_count == kAccusersMax || std::find(accusers.begin(), end, accuser) != end) return false;
  accusers[accuser_count++] = accuser;
  return true;
}

}  // namespace starling::gossip

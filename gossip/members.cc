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
  ids_.insert(ids_.begin() + static_cast<std::ptrdiff_t>(index), id);
  homes_.insert(homes_.begin() + static_cast<std::ptrdiff_t>(index), hash_of(record.member.address));
  return *records_.insert(records_.begin() + static_cast<std::ptrdiff_t>(index), std::move(record));
}

void Members::erase(PeerId id) {
  const std::size_t index = lower_bound(id);
  STARLING_CHECK(index < ids_.size() && ids_[index] == id);
  digest_[bucket_of(id)] -= hash_of(records_[index].member);
  ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(index));
  homes_.erase(homes_.begin() + static_cast<std::ptrdiff_t>(index));
  records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(index));
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

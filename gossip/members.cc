#include "gossip/members.h"

#include <algorithm>

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
  digest_[bucket_of(id)] += hash_of(record);
  ids_.insert(ids_.begin() + static_cast<std::ptrdiff_t>(index), id);
  return *records_.insert(records_.begin() + static_cast<std::ptrdiff_t>(index), std::move(record));
}

void Members::erase(PeerId id) {
  const std::size_t index = lower_bound(id);
  STARLING_CHECK(index < ids_.size() && ids_[index] == id);
  digest_[bucket_of(id)] -= hash_of(records_[index]);
  ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(index));
  records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(index));
}

std::size_t Members::bucket_of(PeerId id) {
  return id.value % wire::kDigestBuckets;  // ids are random
}

std::uint64_t Members::hash_of(const Record& record) {
  if (record.forgotten) return 0;
  const wire::Member& m = record.member;
  const std::uint64_t state = record.is_live() ? 0 : static_cast<std::uint64_t>(m.liveness);
  const std::array<std::uint64_t, 2> words{
      m.id.value, std::uint64_t{m.incarnation} << 16 | static_cast<std::uint64_t>(m.phase) << 8 | state};
  return hash64(std::as_bytes(std::span(words)));
}

}  // namespace starling::gossip

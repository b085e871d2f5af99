#include "gossip/local_view.h"

#include <algorithm>

namespace starling::gossip {

std::vector<std::uint64_t> LocalView::digest() const {
  std::vector<std::uint64_t> buckets(members.digest().begin(), members.digest().end());
  buckets[Members::bucket_of(self.id)] += Members::hash_of(self);
  return buckets;
}

Record* LocalView::draw_live() {
  if (members.live() == 0) return nullptr;
  constexpr int kTries = 8;
  std::size_t index = 0;
  for (int i = 0; i < kTries; ++i) {
    index = random.below(members.size());
    if (members.at(index).is_live()) return &members.at(index);
  }
  while (!members.at(index).is_live()) index = (index + 1) % members.size();
  return &members.at(index);
}

std::vector<PeerId> LocalView::draw_live(std::size_t count) {
  std::vector<PeerId> ids;
  if (members.live() <= count) {
    for (const Record& record : members.records()) {
      if (record.is_live()) ids.push_back(record.member.id);
    }
    return ids;
  }
  while (ids.size() < count) {
    const PeerId id = draw_live()->member.id;
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

Instant LocalView::jittered(Instant now, Duration interval) {
  return now + Duration{1} + Duration{static_cast<std::int64_t>(random.below(interval.count()))};
}

}  // namespace starling::gossip

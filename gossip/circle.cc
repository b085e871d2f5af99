#include "gossip/circle.h"

#include <algorithm>

namespace starling::gossip {

const Record* Circle::draw() {
  refill();
  return members_.empty() ? nullptr : view_.members.find(members_[view_.random.below(members_.size())]);
}

void Circle::renew() {
  if (members_.size() >= kSize && view_.random.chance(0.25)) members_.erase(members_.begin());
}

void Circle::refill() {
  std::erase_if(members_, [&](PeerId id) {
    const Record* const record = view_.members.find(id);
    return record == nullptr || !record->is_live();
  });
  const std::size_t live = view_.members.live();
  const std::size_t wanted = std::min(kSize, live);
  if (wanted == live && members_.size() < wanted) members_ = view_.draw_live(wanted);
  while (members_.size() < wanted) {
    const PeerId id = view_.draw_live()->member.id;
    if (std::find(members_.begin(), members_.end(), id) == members_.end()) members_.push_back(id);
  }
}

}  // namespace starling::gossip

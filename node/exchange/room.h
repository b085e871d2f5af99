// A small store of the bytes that chunks are made in and sent from: an exchange that goes on allocates nothing,
// and the room that was used last, which is still in the cache, is used next.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/aligned.h"

namespace starling::node {

using Room = AlignedBytes;

class RoomStore {
 public:
  explicit RoomStore(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // At least so large.
  Room take(std::size_t bytes) {
    for (auto room = rooms_.rbegin(); room != rooms_.rend(); ++room) {
      if (room->size() < bytes) continue;
      Room found = std::move(*room);
      rooms_.erase(std::next(room).base());
      bytes_ -= found.size();
      return found;
    }
    return Room(bytes);
  }

  // Kept for the next time unless the store is full.
  void give(Room room) {
    if (room.size() == 0 || bytes_ + room.size() > bytes_max_) return;
    bytes_ += room.size();
    rooms_.push_back(std::move(room));
  }

  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::vector<Room> rooms_;
};

}  // namespace starling::node

// Virtual time: a queue of happenings, ordered only by (instant, order of scheduling), so the same schedule
// replays the same run. A happening is a callable of at most kHappeningBytes; the queue stores it in a slot
// of its own, so scheduling needs no allocation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace starling::lab {

class EventQueue {
 public:
  static constexpr std::size_t kHappeningBytes = 80;

  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue() {
    for (const Entry& entry : entries_) finish(slot(entry.slot), false);
  }

  // REQUIRES: at is not before now().
  template <class Happening>
  void schedule(Instant at, Happening happening) {
    static_assert(sizeof(Happening) <= kHappeningBytes,
                  "a happening may contain only a pointer and some indices");
    static_assert(alignof(Happening) <= alignof(std::max_align_t));
    STARLING_CHECK(at >= now_);
    const std::uint32_t index = free_slot();
    Slot& s = slot(index);
    new (s.bytes) Happening(std::move(happening));
    s.end = [](void* bytes, bool happens) {
      auto* h = std::launder(static_cast<Happening*>(bytes));
      if (happens) (*h)();
      h->~Happening();
    };
    entries_.push_back({at, next_sequence_++, index});
    std::push_heap(entries_.begin(), entries_.end(), Later());
  }

  Instant now() const { return now_; }
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  std::uint64_t scheduled() const { return next_sequence_; }  // since the beginning
  // The instant of the next happening. REQUIRES: !empty().
  Instant next() const { return entries_.front().at; }

  // Advances to the next happening and runs it. REQUIRES: !empty().
  void run_one() {
    std::pop_heap(entries_.begin(), entries_.end(), Later());
    const Entry entry = entries_.back();
    entries_.pop_back();
    now_ = entry.at;
    finish(slot(entry.slot), true);
    free_.push_back(entry.slot);
  }

 private:
  static constexpr std::size_t kBlock = 256;  // slots; a slot never moves, so a happening may schedule others

  struct Entry {
    Instant at;
    std::uint64_t sequence;
    std::uint32_t slot;
  };
  struct Later {  // without branches, which nothing predicts
    bool operator()(const Entry& a, const Entry& b) const {
      const bool is_later = a.at > b.at, is_same = a.at == b.at, follows = a.sequence > b.sequence;
      return is_later | (is_same & follows);
    }
  };
  struct Slot {
    alignas(std::max_align_t) std::byte bytes[kHappeningBytes];
    void (*end)(void*, bool happens);
  };
  static void finish(Slot& s, bool happens) { s.end(s.bytes, happens); }

  Slot& slot(std::uint32_t index) { return blocks_[index / kBlock][index % kBlock]; }
  std::uint32_t free_slot() {
    if (free_.empty()) {
      const auto first = static_cast<std::uint32_t>(blocks_.size() * kBlock);
      blocks_.push_back(std::make_unique<Slot[]>(kBlock));
      for (std::uint32_t i = kBlock; i > 0; --i) free_.push_back(first + i - 1);
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }

  std::vector<Entry> entries_;  // a heap with the earliest at the front
  std::vector<std::unique_ptr<Slot[]>> blocks_;
  std::vector<std::uint32_t> free_;
  std::uint64_t next_sequence_ = 0;
  Instant now_;
};

}  // namespace starling::lab

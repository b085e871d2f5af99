// Virtual time: what is to happen, ordered by (instant, order of scheduling). Nothing else decides what comes
// first, so the same schedule replays the same run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace starling::lab {

class EventQueue {
 public:
  using Happening = std::function<void()>;

  // REQUIRES: at is not before now().
  void schedule(Instant at, Happening happening) {
    entries_.push_back({at, next_sequence_++, std::move(happening)});
    std::push_heap(entries_.begin(), entries_.end(), later);
  }

  Instant now() const { return now_; }
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  // When the next one is due. REQUIRES: !empty().
  Instant next() const { return entries_.front().at; }

  // Advances to the next happening and lets it happen. REQUIRES: !empty().
  void run_one() {
    std::pop_heap(entries_.begin(), entries_.end(), later);
    Entry entry = std::move(entries_.back());
    entries_.pop_back();
    now_ = entry.at;
    entry.happening();
  }

 private:
  struct Entry {
    Instant at;
    std::uint64_t sequence;
    Happening happening;
  };
  static bool later(const Entry& a, const Entry& b) {
    return std::pair(a.at, a.sequence) > std::pair(b.at, b.sequence);
  }

  std::vector<Entry> entries_;  // a heap, the earliest first
  std::uint64_t next_sequence_ = 0;
  Instant now_;
};

}  // namespace starling::lab

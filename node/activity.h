// What a real peer does with its time, for the launcher's time lines: seconds of computing, of exchanging and
// of waiting since training began (training/timeline.h says what these mean). Of the daemon's thread alone,
// which tells it of every change.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "base/ids.h"
#include "base/time.h"

namespace starling::node {

class ActivityClock {
 public:
  struct Sums {
    Duration computing{0}, exchanging{0}, waiting{0};
  };

  // `now` never runs backwards; `idle` is how long all workers together have stood still so far.
  void account(Instant now, Duration idle);

  // Each of these after account().
  void train(bool on) { training_ = on; }
  // `waits`: training rests until the partner's first word, which advanced() tells of.
  void began(std::uint64_t exchange, bool waits) {
    if (!waits) owns_.insert(exchange);
  }
  void advanced(std::uint64_t exchange) { owns_.insert(exchange); }
  void ended(std::uint64_t exchange) { owns_.erase(exchange); }
  void answers(PeerId from, std::uint64_t exchange) { answers_.emplace(from, exchange); }
  void answered(PeerId from, std::uint64_t exchange) { answers_.erase({from, exchange}); }

  const Sums& sums() const { return sums_; }

 private:
  Sums sums_;
  Instant since_{};
  Duration idle_{0};
  bool training_ = false;
  std::set<std::uint64_t> owns_;                        // under way
  std::set<std::pair<PeerId, std::uint64_t>> answers_;  // accepted
};

}  // namespace starling::node

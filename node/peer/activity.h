// How a peer divides its time since training began among computing, exchanging and waiting, for the
// launcher's time lines (training/records/timeline.h). The daemon's thread reports every change.
#pragma once

#include <algorithm>
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

  // `now` never decreases; `idle` is the total time in which all workers were idle (Trainer::idle).
  void account(Instant now, Duration idle) {
    const Duration time = now - std::exchange(since_, now);
    const Duration stood = std::clamp(idle - std::exchange(idle_, idle), Duration{0}, time);
    const Duration computed = training_ ? time - stood : Duration{0};
    sums_.computing += computed;
    if (owns_.empty() && answers_.empty()) {
      sums_.waiting += time - computed;
    } else {
      sums_.exchanging += time;
    }
  }

  // Each of the following is called after account().
  void train(bool on) { training_ = on; }
  // `waits`: training is paused until the partner's first message, which advanced() reports.
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

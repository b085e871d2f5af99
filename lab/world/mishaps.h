// The incidents of one virtual machine over time: pauses, intervals in which it is slow or sends poison, a
// slow disk, a clock that drifts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "lab/world/faults.h"

namespace starling::lab {

struct Mishaps {
  double clock_rate = 0;          // the clock runs at 1 + rate of true time
  std::vector<TimeRange> pauses;  // ordered by beginning
  std::vector<Slow> slow;
  std::vector<SlowDisk> disks;
  std::vector<Poison> poisons;

  // The factor by which the step with this number takes longer if it begins at `at`.
  double slowness_of_step(Instant at, std::uint64_t step) const {
    double factor = 1;
    for (const Slow& s : slow) {
      if (s.from <= at && at < s.to) factor *= s.factor.of_step(s.chance, step);
    }
    return factor;
  }
  // The same for the median step.
  double slowness(Instant at) const {
    double factor = 1;
    for (const Slow& s : slow) {
      if (s.from <= at && at < s.to) factor *= s.factor.median();
    }
    return factor;
  }

  Duration disk_access(Instant at) const {
    Duration access{0};
    for (const SlowDisk& d : disks) {
      if (d.from <= at && at < d.to) access = std::max(access, d.access);
    }
    return access;
  }

  // The poison with the highest chance at this time; null if there is none.
  const Poison* poison(Instant at) const {
    const Poison* likeliest = nullptr;
    for (const Poison& p : poisons) {
      if (p.from <= at && at < p.to && (likeliest == nullptr || p.chance > likeliest->chance)) likeliest = &p;
    }
    return likeliest;
  }

  // Drops the pauses that ended before `kept_from`: recurring ones would accumulate forever.
  void add_pause(TimeRange pause, Instant kept_from) {
    std::erase_if(pauses, [&](const TimeRange& it) { return it.to < kept_from; });
    pauses.push_back(pause);
    std::ranges::sort(pauses, {}, &TimeRange::from);
  }
  // The end of the pauses that cover `at`, or `at`.
  Instant awake(Instant at) const {
    for (const TimeRange& pause : pauses) {
      if (pause.covers(at)) at = pause.to;
    }
    return at;
  }
  Duration paused_within(Instant from, Instant to) const {
    Duration paused{0};
    for (const TimeRange& pause : pauses) {
      const Instant begin = std::max(from, pause.from), end = std::min(to, pause.to);
      if (begin >= end) continue;
      paused += end - begin;
      from = end;
    }
    return paused;
  }

  // What the clock shows at `at`, and the first instant at which the clock shows `at_local`.
  Instant local(Instant at) const {
    if (clock_rate == 0 || at == kNever) return at;
    return Instant{
        Duration{static_cast<std::int64_t>(static_cast<double>(at.since_start.count()) * (1 + clock_rate))}};
  }
  Instant true_time(Instant at_local) const {
    if (clock_rate == 0 || at_local == kNever) return at_local;
    Instant at{Duration{
        static_cast<std::int64_t>(static_cast<double>(at_local.since_start.count()) / (1 + clock_rate))}};
    while (local(at) < at_local) at = at + Duration{1};
    return at;
  }
};

}  // namespace starling::lab

// What befalls one virtual machine over time: pauses, slow stretches, a slow disk, a clock that drifts,
// stretches in which it sends poison.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "lab/world/faults.h"

namespace starling::lab {

struct Mishaps {
  double clock_rate = 0;         // its clock runs at 1 + rate of true time
  std::vector<Interval> pauses;  // in the order of their beginnings
  std::vector<Slow> slow;
  std::vector<SlowDisk> disks;
  std::vector<Poison> poisons;

  // Factors by which the step of this number takes longer if it begins now, and by which the median step
  // does.
  double slowness_of_step(Instant at, std::uint64_t step) const {
    return lab::slowness_of_step(slow, at, step);
  }
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

  // The likeliest of the poisons that spoil its chunks now; null if there is none.
  const Poison* poison(Instant at) const {
    const Poison* likeliest = nullptr;
    for (const Poison& p : poisons) {
      if (p.from <= at && at < p.to && (likeliest == nullptr || p.chance > likeliest->chance)) likeliest = &p;
    }
    return likeliest;
  }

  void add_pause(Interval pause, Instant now) {
    // Nobody asks about pauses that are long over, and recurring ones would accumulate for ever.
    std::erase_if(pauses, [now](const Interval& it) { return it.to < now - kPausesKept; });
    pauses.push_back(pause);
    std::sort(pauses.begin(), pauses.end(),
              [](const Interval& a, const Interval& b) { return a.from < b.from; });
  }
  Instant awake(Instant at) const { return awake_at(pauses, at); }
  Duration paused_within(Instant from, Instant to) const {
    Duration paused{0};
    for (const Interval& pause : pauses) {
      const Instant begin = std::max(from, pause.from), end = std::min(to, pause.to);
      if (begin >= end) continue;
      paused += end - begin;
      from = end;
    }
    return paused;
  }

  // What its clock shows, and back: the first instant at which the clock shows `at_local`.
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

 private:
  static constexpr Duration kPausesKept = std::chrono::minutes(5);
};

}  // namespace starling::lab

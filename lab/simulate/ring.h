// The virtual machines of a run without gossip, and the ring of links between them: how long steps and sums
// over all peers take under the experiment's faults. lab/simulate/all_reduce.cc has the formula.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "lab/simulate/incidents.h"
#include "lab/world/mishaps.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/timeline.h"

namespace starling::lab {

class Ring {
 public:
  // `steps`: the length of each machine's step without faults. `frame_bytes`: what is sent again where a
  // frame is lost. The experiment outlives the ring.
  Ring(const training::Experiment& experiment, const std::vector<Duration>& steps, std::size_t frame_bytes);

  const std::optional<Crash>& first_crash() const { return crash_; }
  // A machine that is paused forever, after an instant below was kNever.
  std::uint32_t asleep() const { return asleep_; }

  // When the last machine has made these steps, [first, first + count), which begin at `at`; kNever if one is
  // paused forever.
  Instant computed(Instant at, std::uint64_t first, std::uint64_t count);
  // When every machine has a sum that begins at `at`, of which each has a part of `part_bytes`; kNever as
  // above.
  Instant reduced(Instant at, std::size_t part_bytes);
  // What all machines send for a sum whose parts have these bytes together: in each of 2 (n - 1) rounds all
  // parts move.
  std::uint64_t bytes_per_sum(std::size_t all_parts) const { return 2 * (machines_.size() - 1) * all_parts; }
  // Draws the latest steps and the sum after them into the time lines. The last step counts where the sum
  // ended.
  void draw(Instant begin, Instant computed, Instant reduced);
  // The lines of timeline.jsonl.
  std::string timelines() const;

 private:
  // Recurring pauses, and the next of them.
  using Recurrence = std::pair<Recurring, std::optional<Pause>>;
  struct Machine {
    double step = 0;  // seconds, without faults
    Mishaps mishaps{};
    std::vector<Recurrence> recurring{};
    std::vector<Instant> ends{};  // of its latest steps
    training::Timeline timeline{};
  };

  void add_incidents();
  Instant awake(std::uint32_t machine, Instant at);
  Instant all_awake(Instant at);
  Duration round_time(Duration at, std::size_t part_bytes);
  Duration travel(std::size_t part_bytes, Duration latency, double bandwidth) const;

  const training::Experiment& experiment_;
  std::vector<Machine> machines_;
  Random random_;
  std::size_t frame_bytes_;
  Duration latency_;
  double bandwidth_, port_;
  bool links_change_ = false;
  std::optional<Crash> crash_{};
  std::uint32_t asleep_ = 0;
};

}  // namespace starling::lab

// The virtual machines of bulk-synchronous training and the ring of links between them: how long a step and
// an all-reduce take under the experiment's faults, and what each machine does meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "lab/simulate/incidents.h"
#include "lab/world/faults.h"
#include "training/experiment/experiment.h"
#include "training/records/timeline.h"

namespace starling::lab {

class Ring {
 public:
  // `floats`: of the gradient. The experiment outlives the ring.
  Ring(const training::Experiment& experiment, std::size_t floats);

  // Sent by all machines: in each round all chunks move.
  std::uint64_t bytes_per_step() const { return 2 * (machines_.size() - 1) * bytes_; }
  const std::optional<Crash>& first_crash() const { return crash_; }
  // A machine that is paused forever, after an instant below was kNever.
  std::uint32_t asleep() const { return asleep_; }

  // When the last machine has computed the gradient of this step, which begins at `at`; kNever if one is
  // paused forever.
  Instant computed(Instant at, std::uint64_t step);
  // When every machine has the mean of the gradients whose sum begins at `at`; kNever as above.
  Instant reduced(Instant at);
  // Draws the latest step into the time lines.
  void draw_step(Instant begin, Instant computed, Instant reduced);
  // The lines of timeline.jsonl.
  std::string timelines() const;

 private:
  // A pause that recurs, and its next occurrence.
  using Recurrence = std::pair<Recurring, std::optional<Pause>>;
  struct Machine {
    double step = 0;  // seconds, without faults
    std::vector<Slow> slow{};
    std::vector<Interval> pauses{};  // by their beginnings
    std::vector<Recurrence> recurring{};
    Instant computed{};  // its gradient of the latest step
    training::Timeline timeline{};
  };

  void add_incidents();
  static void add_pause(Machine& machine, const Pause& pause);
  static void draw_pauses_until(Machine& machine, Instant at);
  static void draw(Machine& machine, Instant from, Instant to, const training::Activity& doing);
  Instant awake(std::uint32_t machine, Instant at);
  Instant all_awake(Instant at);
  Duration round_time(Duration at);
  Duration travel(Duration latency, double bandwidth) const;

  const training::Experiment& experiment_;
  std::vector<Machine> machines_;
  Random random_;
  std::size_t bytes_, chunk_bytes_, frame_bytes_;
  Duration latency_;
  double bandwidth_, port_;
  bool links_change_ = false;
  std::optional<Crash> crash_{};
  std::uint32_t asleep_ = 0;
};

}  // namespace starling::lab

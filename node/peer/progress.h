// How far the run is and how long it still takes, in words for the log and the page.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "training/runs/experiment/experiment.h"

namespace starling::node {

// "40 epochs of the swarm", "2000 steps of this peer", "10m since the run began", several with " or "; empty:
// the run has no end.
std::string ends_after(const training::EndSettings& end);

class RunProgress {
 public:
  using Clock = std::chrono::steady_clock;

  // Training begins here, with these counts.
  void begin(Clock::time_point now, std::uint64_t swarm_samples, std::uint64_t steps) {
    begun_ = {now, swarm_samples, steps};
  }

  struct Now {
    Clock::time_point time;
    std::uint64_t swarm_samples, steps;
  };
  // Seconds to the first limit in samples or steps, at the mean speed since begin(); nullopt if there is
  // none, or no speed yet. A limit in time does not count: only the peer that began the run knows when that
  // was.
  std::optional<double> seconds_left(const training::EndSettings& end, std::uint64_t epoch_samples,
                                     const Now& now) const;
  // "12.3 of 40 epochs, about 4 min left"; "12.3 epochs" without such an end; "7000 samples" if it is not
  // known how many are in an epoch (0).
  std::string text(const training::EndSettings& end, std::uint64_t epoch_samples, const Now& now) const;

 private:
  std::optional<Now> begun_;
};

}  // namespace starling::node

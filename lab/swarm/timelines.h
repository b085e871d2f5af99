// The time lines of a swarm's members: what each did when, drawn from its reports and from the pauses that
// the launcher inflicts. Times are seconds from the run's first step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/swarm/swarm_run.h"
#include "training/records/timeline.h"

namespace starling::lab {

class Timelines {
 public:
  // `peers` limits the length of timeline.jsonl.
  Timelines(std::size_t members, std::size_t peers);

  // What a member did between its previous report and the one received at `at`. Reports count seconds without
  // regard to pauses.
  void add_report(std::uint32_t member, const training::PeerReport& previous,
                  const training::PeerReport& report, double at);
  // The member had no process until `at`.
  void add_absence(std::uint32_t member, double at);
  void pause(std::uint32_t member, double at);
  void resume(std::uint32_t member, double at);

  // The lines of timeline.jsonl; those of members that ended early are filled up to the latest end.
  std::string lines(const std::vector<Member>& members);

 private:
  struct Line {
    training::Timeline cells;
    double drawn = 0;  // up to here
    std::optional<double> paused_at{};
    double stood_still = 0;  // seconds of pauses that ended since `drawn`
  };

  std::vector<Line> lines_;
};

}  // namespace starling::lab

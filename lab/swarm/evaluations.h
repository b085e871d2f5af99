// The evaluations of a swarm's mean model while it runs: which members write snapshots and how often, when a
// snapshot is complete, and what the evaluator found, as lines of metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/swarm/replica_judge.h"
#include "lab/swarm/swarm_run.h"

namespace starling::lab {

class Evaluations {
 public:
  // `run` outlives the evaluations.
  explicit Evaluations(SwarmRun& run);

  // Whether the member's parameters, or a part of them, are the run's model: with servers, those at the top.
  bool includes(const Member& member) const;
  // Snapshots that each member writes per epoch of the swarm.
  std::vector<std::uint32_t> snapshots() const;

  // A member has written a snapshot, or skipped it (its path is empty).
  void add_snapshot(Member& member, const training::PeerReport& report);
  // Hands over the snapshots for which no member that trains is missing. A member that joined later has none.
  void close_snapshots();
  // Writes the new evaluations to the time series. True if one of them is the first to reach the target.
  bool record();
  // Waits for the snapshots handed over.
  void finish();

  std::optional<double> accuracy() const { return accuracy_; }  // latest
  std::optional<double> seconds_to_target() const { return seconds_to_target_; }

 private:
  struct Snapshot {
    double seconds = 0;
    std::vector<std::pair<std::uint32_t, std::string>> paths;  // by the members' numbers
  };
  void write(const MeanEvaluator::Evaluation& evaluation);

  SwarmRun& run_;
  std::uint32_t per_epoch_;
  std::unique_ptr<MeanEvaluator> evaluator_;       // null if per_epoch_ is 0
  std::map<std::uint64_t, Snapshot> snapshots_{};  // incomplete
  std::optional<double> accuracy_{}, seconds_to_target_{};
};

}  // namespace starling::lab

// The evaluations of a swarm's mean model while it runs: which members write snapshots and how often, when a
// snapshot is complete, and what the evaluator found, as lines of metrics.jsonl.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lab/swarm/replica_judge.h"
#include "lab/swarm/swarm_run.h"
#include "training/runs/records/files.h"

namespace starling::lab {

class Evaluations {
 public:
  // `run` outlives the evaluations.
  explicit Evaluations(SwarmRun& run) : run_(run), per_epoch_(snapshots_per_epoch(run)) {
    if (per_epoch_ == 0) return;
    MeanEvaluator::Options options{.target = run.experiment.end};
    if (!asks_for_evaluations(run.experiment))
      options.processor_share = kShareByDefault * std::max(1U, std::thread::hardware_concurrency());
    evaluator_ = std::make_unique<MeanEvaluator>(run.plan, run.data.test, options);
  }

  // Whether the member's parameters, or a part of them, are the run's model: with servers, those at the top.
  bool includes(const SwarmMember& member) const {
    if (!training::has_servers(run_.experiment)) return true;
    return run_.serves(member) && member.number - run_.experiment.peers < run_.experiment.gossip.servers;
  }
  // Snapshots that each member writes per epoch of the swarm.
  std::vector<std::uint32_t> snapshots() const {
    std::vector<std::uint32_t> all;
    for (const SwarmMember& member : run_.members) all.push_back(includes(member) ? per_epoch_ : 0);
    return all;
  }

  // A member has written a snapshot, or skipped it (its path is empty).
  void add_snapshot(SwarmMember& member, const training::PeerReport& report) {
    member.life.snapshot = std::max(member.life.snapshot, report.snapshot);
    if (report.path.empty()) return;
    Snapshot& snapshot = snapshots_[report.snapshot];
    snapshot.paths.emplace_back(member.number, report.path);
    if (!run_.first_step) run_.first_step = SwarmRun::now();
    snapshot.seconds = *run_.seconds();
  }

  // Hands over the snapshots for which no member that trains is missing. A member that joined later has none.
  void close_snapshots() {
    while (!snapshots_.empty()) {
      const std::uint64_t number = snapshots_.begin()->first;
      for (const SwarmMember& member : run_.members) {
        const Life& life = member.life;
        const bool writes = member.running() && !life.paused() && (life.first_step || run_.serves(member));
        if (writes && includes(member) && life.snapshot < number) return;
      }
      Snapshot snapshot = std::move(snapshots_.begin()->second);
      snapshots_.erase(snapshots_.begin());
      std::sort(snapshot.paths.begin(), snapshot.paths.end());
      const bool served = training::has_servers(run_.experiment);
      MeanEvaluator::Snapshot complete{snapshot.seconds, {}, served};
      for (auto& [of, path] : snapshot.paths) complete.paths.push_back(std::move(path));
      if (evaluator_ && (!served || complete.paths.size() == run_.experiment.gossip.servers)) {
        evaluator_->add(std::move(complete));
      } else {
        training::remove_files(complete.paths);
      }
    }
  }

  // Writes the new evaluations to the time series. True if one of them is the first to reach the target.
  bool record() {
    if (!evaluator_) return false;
    bool reached = false;
    for (const MeanEvaluator::Evaluation& evaluation : evaluator_->take()) {
      accuracy_ = evaluation.accuracy;
      write(evaluation);
      if (!evaluation.reached || seconds_to_target_) continue;
      reached = true;
      seconds_to_target_ = evaluation.seconds;
      run_.inform(fmt::format("target reached after {:.1f} s: accuracy {:.4g}, loss {:.4g}",
                              evaluation.seconds, evaluation.accuracy, evaluation.loss));
    }
    return reached;
  }

  // Waits for the snapshots handed over.
  void finish() {
    if (evaluator_) evaluator_->finish();
  }

  std::optional<double> accuracy() const { return accuracy_; }  // latest
  std::optional<double> seconds_to_target() const { return seconds_to_target_; }

 private:
  // Evaluations that the experiment does not ask for may cost 2 % of the processors' time, are about 30 a
  // run, and are left out if a snapshot of all peers exceeds 256 MB.
  static constexpr double kShareByDefault = 0.02;
  static constexpr double kEvaluationsByDefault = 30;
  static constexpr std::size_t kMostBytesByDefault = std::size_t{256} << 20;

  struct Snapshot {
    double seconds = 0;
    std::vector<std::pair<std::uint32_t, std::string>> paths;  // by the members' numbers
  };

  void write(const MeanEvaluator::Evaluation& evaluation) {
    training::MetricsLine line;
    line.seconds = evaluation.seconds;
    line.peer = "mean";
    line.samples = run_.samples();
    for (const SwarmMember& member : run_.members) {
      line.steps += member.steps();
      line.exchanges += member.exchanges_begun();
      line.bytes_sent += member.bytes_sent();
    }
    line.loss = evaluation.loss;
    line.accuracy = evaluation.accuracy;
    line.consensus_distance = evaluation.consensus_distance;
    run_.metrics << training::to_json(line) << '\n';
  }

  static bool asks_for_evaluations(const training::Experiment& experiment) {
    return experiment.looks.has_value() || training::has_target(experiment.end);
  }

  static std::uint32_t snapshots_per_epoch(const SwarmRun& run) {
    const training::Experiment& experiment = run.experiment;
    if (asks_for_evaluations(experiment)) return training::resolved_looks(experiment);
    if (sizeof(float) * run.plan.layout.arena_size() * run.members.size() > kMostBytesByDefault) return 0;
    std::optional<double> epochs = experiment.end.epochs;
    if (experiment.end.steps) {
      const double samples =
          static_cast<double>(*experiment.end.steps) * experiment.peers * experiment.training.batch_size;
      const double by_steps = samples / static_cast<double>(std::max<std::size_t>(run.data.train.size(), 1));
      epochs = std::min(epochs.value_or(by_steps), by_steps);
    }
    if (!epochs) return 1;  // the run ends by time
    return static_cast<std::uint32_t>(std::clamp(std::ceil(kEvaluationsByDefault / *epochs), 1.0,
                                                 static_cast<double>(training::resolved_looks(experiment))));
  }

  SwarmRun& run_;
  std::uint32_t per_epoch_;
  std::unique_ptr<MeanEvaluator> evaluator_;       // null if per_epoch_ is 0
  std::map<std::uint64_t, Snapshot> snapshots_{};  // incomplete
  std::optional<double> accuracy_{}, seconds_to_target_{};
};

}  // namespace starling::lab

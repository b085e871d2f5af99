// Evaluates the replicas of a run from the files that the peers write, on the test set: the mean model while
// the run lasts, and all replicas at its end, several at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "models/spec.h"
#include "training/learning/evaluator.h"

namespace starling::lab {

using Score = training::Evaluator::Score;

// ---- at the end ----

struct Judgement {
  std::vector<std::optional<Score>> replicas;  // of each file; none if it cannot be read
  std::vector<float> mean;                     // of those that count; empty if none does
  std::optional<Score> mean_score;
  std::optional<double> consensus_distance;
};

struct ReplicaFile {
  std::string path;  // empty: no replica
  bool counts;       // in the mean and the consensus
};

// Holds all replicas in memory meanwhile. `servers`: the files of the parameter servers by number, if there
// are any; their model is evaluated instead of the mean if all of them can be read.
Judgement judge_replicas(const std::vector<ReplicaFile>& files, const std::vector<std::string>& servers,
                         const models::Plan& plan, const datasets::Dataset& test);

// The model composed of the servers' parts in these files, by number. An Error names the file that cannot be
// read.
Result<std::vector<float>> read_served_model(const std::vector<std::string>& paths, const models::Plan& plan);

// The consensus distance of the replicas in these files; nullopt if none can be read. Removes the files.
std::optional<double> consume_consensus(const std::vector<std::string>& paths, const models::Plan& plan);

// ---- while the run lasts ----

// Evaluates the mean model of a running swarm: peers write snapshots at equal progress, and a thread averages
// and evaluates them, in order, until the mean reaches the target, if there is one. An evaluation
// uses the first 1,000 test images, and all of them if the accuracy on those is within a point of the target.
class MeanEvaluator {
 public:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

  struct Options {
    training::EndSettings target{};  // its targets
    // Processor seconds that evaluations may cost, for each second of the run. A snapshot that would exceed
    // it is removed without evaluation. The cost of the first evaluation is measured before the run, on a few
    // images.
    double processor_share = kUnlimited;
  };
  // `plan` and `test` outlive the evaluator.
  MeanEvaluator(const models::Plan& plan, const datasets::Dataset& test, const Options& options);
  // Drops the snapshots that wait.
  ~MeanEvaluator();

  // The replicas' files at one moment. The evaluator removes them.
  struct Snapshot {
    double seconds;                  // since the first step
    std::vector<std::string> paths;  // at least one
    bool served = false;             // of parameter servers, by number: each has a part of the model
  };
  void add(Snapshot snapshot);

  struct Evaluation {
    double seconds;
    double accuracy, loss;  // of the mean model, on 1,000 images or all
    std::optional<double> consensus_distance;
    bool reached;  // the target, on all test images
  };
  // The evaluations since the last call, in order.
  std::vector<Evaluation> take();
  // Waits until every snapshot added is evaluated or dropped.
  void finish();

 private:
  class Budget;
  void work();

  const models::Plan& plan_;
  const datasets::Dataset& test_;
  const Options options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Snapshot> waiting_;
  std::vector<Evaluation> done_;
  bool busy_ = false, stopping_ = false, reached_ = false;
  std::thread thread_;
};

}  // namespace starling::lab

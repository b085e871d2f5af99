// Evaluates the mean model of a running swarm: peers write snapshots at equal progress, and a thread averages
// and evaluates them, in order, until the mean reaches the target accuracy, if there is one. An evaluation
// uses the first 1,000 test images, and all of them if the accuracy on those is within a point of the target.
#pragma once

#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "datasets/dataset.h"
#include "models/spec.h"

namespace starling::lab {

class MeanEvaluator {
 public:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

  struct Options {
    std::optional<double> target{};
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
    double seconds;  // since the first step
    std::vector<std::string> paths;
    bool served = false;  // of parameter servers, by number: each has a part of the model
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

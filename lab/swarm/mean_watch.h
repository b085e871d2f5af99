// Looks at the mean model of a running swarm, off its clock: the peers leave snapshots at equal progress, and
// a thread averages and evaluates them, in order, until one reaches the target accuracy, where there is one.
// Each look first tests 1,000 images, and all of them only where those come within a point of the target.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "datasets/dataset.h"
#include "models/spec.h"

namespace starling::lab {

class MeanWatch {
 public:
  // `plan` and `test` outlive the watch.
  MeanWatch(const models::Plan& plan, const datasets::Dataset& test, std::optional<double> target);
  // Gives up what is still waiting.
  ~MeanWatch();

  // The replicas' files at one moment; they are removed when they have been looked at, or need not be.
  struct Look {
    double seconds;  // from the first step
    std::vector<std::string> paths;
    bool served = false;  // they are parameter servers', by number, each with its part of the model
  };
  void add(Look look);

  struct Seen {
    double seconds;
    double accuracy, loss;  // of the mean model, on 1,000 images or all
    std::optional<double> consensus_distance;
    bool reached;  // on all of the test set
  };
  // What was seen since the last call, in order.
  std::vector<Seen> take();
  // Waits until everything added has been looked at.
  void finish();

 private:
  void work();

  const models::Plan& plan_;
  const datasets::Dataset& test_;
  const std::optional<double> target_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Look> waiting_;
  std::vector<Seen> seen_;
  bool busy_ = false, stopping_ = false, reached_ = false;
  std::thread thread_;
};

}  // namespace starling::lab

// The running statistics of a batch normalization after a batch of several micro-batches. Each of these wrote
// the change by its own statistics: momentum (mean_i - running), and the same for the unbiased variance. The
// pool makes of them the change by the statistics of all their values together.
#pragma once

#include <cstddef>
#include <vector>

#include "models/spec.h"

namespace starling::training {

class StatisticsPool {
 public:
  // For micro-batches of `samples`. REQUIRES: the layer, of the plan, keeps running statistics.
  StatisticsPool(const models::Plan& plan, const models::LayerInfo& layer, int samples);

  void clear();
  // Adds what a micro-batch wrote into `gradient`, an arena.
  void add(const float* gradient);
  void add(const StatisticsPool& other);  // all that was added to another one of the same layer
  // Writes the change to its places in `gradient`. REQUIRES: add() was called `micro_batches` > 1 times.
  void write(const float* parameters, std::size_t micro_batches, float* gradient) const;

 private:
  std::size_t mean_, variance_, channels_;  // places in the arena
  double values_;                           // of a channel in a micro-batch
  double momentum_;
  std::vector<double> means_, squares_, variances_;  // sums of changes; squares_: of squared means
};

}  // namespace starling::training

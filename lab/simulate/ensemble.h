// One replica that the workers of all peers train together: every step averages their gradients and applies
// the mean.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lab/thread_pool.h"
#include "models/arena.h"
#include "models/spec.h"
#include "training/replica/worker.h"

namespace starling::lab {

class Ensemble {
 public:
  // `plan` and `pool` outlive the ensemble.
  Ensemble(std::vector<std::unique_ptr<training::Worker>> workers, const models::Plan& plan,
           std::span<const float> first, ThreadPool& pool);

  // A step of all workers. False, without any change, if a loss is not finite.
  bool step(double rate_factor);

  std::span<const double> losses() const { return losses_; }
  double smoothed_loss(std::size_t peer) const { return smoothed_[peer]; }
  std::uint64_t steps() const { return steps_; }
  std::span<const float> replica() const { return {arena_.data(), arena_.size()}; }  // between two steps

 private:
  using Gradients = std::vector<std::span<const float>>;
  void average();
  void average(const Gradients& gradients, std::size_t begin, std::size_t end);

  std::vector<std::unique_ptr<training::Worker>> workers_;
  models::Arena arena_;
  std::vector<float> mean_;  // of the gradients
  std::vector<double> losses_, smoothed_;
  std::uint64_t steps_ = 0;
  ThreadPool& pool_;
};

}  // namespace starling::lab

// The replicas of a run without gossip: peers make rounds of steps, and what ends a round involves all of
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lab/simulate/virtual_worker.h"
#include "lab/thread_pool.h"
#include "models/arena.h"
#include "models/spec.h"
#include "training/mixing/rules/diloco.h"
#include "training/runs/records/record.h"

namespace starling::lab {

class Ensemble {
 public:
  using Workers = std::vector<std::unique_ptr<VirtualWorker>>;  // one of each peer

  virtual ~Ensemble() = default;

  // A step of all workers. False if a loss is not finite; then the ensemble is not to be used any more.
  virtual bool step(double rate_factor) = 0;
  // Ends a round. With `last`, all replicas are equal afterwards.
  virtual void meet(bool last) = 0;
  // The bytes of a part that a peer sends in each turn, for each sum of the next meet().
  virtual std::vector<std::size_t> parts(bool last) const = 0;
  // One that all peers share, or each peer's. Between two steps.
  virtual training::Replicas replicas() const = 0;
  // The bytes of all parts of one sum, if a part has `part_bytes`.
  virtual std::size_t all_parts(std::size_t part_bytes) const = 0;

  std::span<const double> losses() const { return losses_; }
  double smoothed_loss(std::size_t peer) const { return smoothed_[peer]; }
  std::uint64_t steps() const { return steps_; }

 protected:
  // `floats`: of a replica. The pool outlives the ensemble.
  Ensemble(Workers workers, std::size_t floats, ThreadPool& pool)
      : workers_(std::move(workers)), pool_(pool), losses_(workers_.size()), smoothed_(workers_.size()) {
    for (std::size_t i = 0; i < workers_.size(); ++i) gradients_.emplace_back(floats);
  }

  // Computes a loss for each worker, in the pool. False if one is not finite.
  template <class Compute>
  bool compute(Compute loss_of);

  Workers workers_;
  ThreadPool& pool_;
  std::vector<kernels::Buffer> gradients_;  // by worker

 private:
  std::vector<double> losses_, smoothed_;
  std::uint64_t steps_ = 0;
};

// All-reduce: one replica that all train. A round is a step.
std::unique_ptr<Ensemble> make_sharing_ensemble(Ensemble::Workers workers, std::span<const float> first,
                                                ThreadPool& pool);
// DiLoCo: a replica for each peer, and an outer step of all of them (training/mixing/rules/diloco.h).
std::unique_ptr<Ensemble> make_outer_ensemble(Ensemble::Workers workers, std::span<const float> first,
                                              std::size_t trained, const training::MixOptions& options,
                                              ThreadPool& pool);

}  // namespace starling::lab

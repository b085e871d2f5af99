// One Hogwild worker of a peer: its batches, the stream that trains on them (batch_stream.h), and the
// optimizer's state. It adds its updates to the shared arena without a lock (Recht et al., "Hogwild!", NIPS
// 2011). One thread uses a worker; wait() is for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "models/arena.h"
#include "training/learning/batch_stream.h"
#include "training/learning/batches.h"
#include "training/learning/optimizer_state.h"
#include "training/learning/stage_floats.h"
#include "training/runs/records/peer_state.h"

namespace starling::training {

struct WorkerOptions {
  std::uint32_t batch_size = 0;
  Optimizer optimizer{};
  NetworkForm network{};
  std::shared_ptr<const kernels::Samples> kept{};  // the same data on the back end's device, or null
  float clip_norm = 0;                             // longer gradients are scaled down to it; 0: off
  std::uint64_t warm_up = 0;                       // steps after renew() in which AdamW's rate rises
  std::optional<Augmenter> augmenter{};
  std::uint32_t follow_swarm = 0;  // quasi-global momentum: OptimizerState::follow_swarm(); 0: off
};

class Worker {
 public:
  // `plan`, `data` and `backend` outlive the worker. REQUIRES: the plan fits the data's shape and classes.
  Worker(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
         BatchSampler sampler, const WorkerOptions& options);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The factor on the optimizer's learning rate (training/runs/experiment/schedule.h), 1 at first. Each
  // feed() or land() asks for it that decides on an update. REQUIRES: it is finite and not negative.
  void set_rate(std::function<double()> factor) { rate_factor_ = std::move(factor); }

  // A step: feed() begins it with the next batch, and land() ends the oldest one in flight. Returns its mean
  // loss, when its update, clipped, is in the arena or queued for it; nullopt: none is in flight. drop() ends
  // it without an update, if stages have not made it by themselves (updates_meanwhile()); false: none is in
  // flight. A device computes asynchronously, so the loss is that of the latest finished batch, one or two
  // steps ago. REQUIRES: !is_full() before feed(); the same arena while batches are in flight.
  void feed(models::Arena& arena);
  std::optional<double> land() { return end_batch(true); }
  bool drop() { return end_batch(false).has_value(); }
  bool is_full() const { return stream_->is_full(); }
  // Whether the arena may change at any time while batches are in flight, not only in land().
  bool updates_meanwhile() const { return !stages_.empty(); }

  // For an all-reduce between feed() and land(): the batch's loss and its mean gradient of the trained
  // parameters, followed by the changes of running statistics; arena_size() floats on the host, valid until
  // land(). gradient() waits for a device's copy. replace_gradient() replaces it, by the mean of several
  // workers. REQUIRES: a batch is in flight; !updates_meanwhile().
  double loss() const { return stream_->computed()->loss; }
  std::span<const float> gradient();
  void replace_gradient(std::span<const float> mean);

  // Waits for the updates of all land() calls that have returned. Any thread may call.
  void wait() { applied_->wait(); }
  // The replica was replaced by other parameters: resets the optimizer's state, and AdamW's rate rises again.
  void renew() { optimizer_.renew(stream_->queue(), warm_up_); }
  // The replica was replaced by other parameters of the same run: OptimizerState::moved().
  void moved() { optimizer_.moved(); }

  // The state of the worker; a step in flight counts as not begun. Waits for a device. `arena` is its
  // replica's. REQUIRES: no other call is active; unless the depth is one, no batch is in flight.
  WorkerState save(const models::Arena& arena);
  // Continue from a saved state: the samples, images and random numbers, and the optimizer's state. Error,
  // and no change, if the state is of another shard or another optimizer.
  Status restore_cursor(const WorkerState& state);
  Status restore_optimizer(const WorkerState& state, const models::Arena& arena) {
    return optimizer_.restore(state, arena, stream_->queue());
  }

  // The threads that compute its steps together, and a call on each: BatchStream.
  std::size_t threads() const { return stream_->threads(); }
  std::shared_ptr<const StageClock> stage_clock() const { return stream_->stage_clock(); }
  void on_each_thread(const std::function<void(std::size_t)>& settle) { stream_->on_each_thread(settle); }

  std::uint32_t batch_size() const { return batches_.size(); }

 private:
  std::optional<double> end_batch(bool updates);
  void add(const BatchStream::Update& update);

  const kernels::Backend& backend_;
  std::function<double()> rate_factor_ = [] { return 1.0; };
  std::unique_ptr<BatchStream> stream_;
  Batches batches_;
  OptimizerState optimizer_;
  const std::uint64_t warm_up_;
  models::Arena* arena_ = nullptr;  // of the batches in flight
  std::unique_ptr<kernels::Queue::Mark> applied_;
  kernels::Buffer gradient_on_host_;          // a device's, after the first gradient()
  std::vector<StageFloats> stages_;           // if they update by themselves, else empty
  std::uint64_t updates_of_first_stage_ = 0;  // since the stream began
};

}  // namespace starling::training

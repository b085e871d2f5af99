// One Hogwild worker: its network, batches and optimizer state. It computes a gradient on given parameters
// and applies its update to the shared arena without a lock (Recht et al., "Hogwild!", NIPS 2011). The daemon
// calls compute() and apply() in turn on a thread per worker; the simulator computes on a snapshot at a
// step's start and applies at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "models/arena.h"
#include "training/learning/augment.h"
#include "training/learning/feed.h"
#include "training/learning/optimizer_state.h"
#include "training/learning/step_network.h"
#include "training/runs/records/peer_state.h"

namespace starling::training {

// Endless batches of indices into a shard, in a new order for every epoch. Batches may span two epochs.
class BatchSampler {
 public:
  BatchSampler(std::vector<std::uint32_t> shard, Random random);  // REQUIRES: shard is not empty
  void next(std::span<std::uint32_t> batch);

  Cursor cursor() const { return {order_, position_, state_of(random_)}; }
  Cursor cursor_before() const;  // before the last next()
  // Continues from there. Error, and no change, if the cursor is of another shard.
  Status set(Cursor cursor);

 private:
  std::vector<std::uint32_t> order_;
  Random random_;
  std::size_t position_ = 0;
  // Before the last batch; the order only if the batch changed it.
  std::vector<std::uint32_t> order_before_;
  Random random_before_;
  std::size_t position_before_ = 0;
};

struct WorkerOptions {
  std::uint32_t batch_size = 0;
  Optimizer optimizer{};
  NetworkForm network{};
  std::shared_ptr<const kernels::Samples> kept{};  // the same data on the back end's device, or null
  // Shared with other workers on the host, and made with the same options; null: the worker makes its own.
  std::shared_ptr<class Engines> engines{};
  float clip_norm = 0;        // longer gradients are scaled down to it; 0: off
  std::uint64_t warm_up = 0;  // steps after renew() in which AdamW's rate rises
};

// Computes steps: a network and its input.
struct Engine {
  std::unique_ptr<StepNetwork> network;
  Feed feed;
  kernels::Buffer gradient{};  // for Worker::compute_taken(); empty before the first call
};

// Engines for steps of one kind. A worker has its own engine, or workers on a host share the engines that
// compute at once, and then a worker is only its state. Any thread may call.
class Engines {
 public:
  // The plan, the back end and the data outlive it.
  Engines(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
          const WorkerOptions& options);

  struct Return {
    Engines* engines;
    void operator()(Engine* engine) const;
  };
  using Lease = std::unique_ptr<Engine, Return>;
  // An engine for exclusive use until the lease ends. Makes another one if all are in use.
  Lease take();

 private:
  std::function<std::unique_ptr<Engine>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Engine>> idle_;
};

class Worker {
 public:
  // `plan`, `data` and `backend` outlive the worker. REQUIRES: the plan fits the data's shape and classes; a
  // shared engine's network has no dropout.
  Worker(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
         BatchSampler sampler, const WorkerOptions& options);

  // Quasi-global momentum: OptimizerState::follow_swarm().
  void follow_swarm(std::uint32_t workers);

  // Crops and flips images at random from now on.
  void augment(Augmentation augmentation, Random random) { augmenter_.emplace(data_, augmentation, random); }

  // Draws the next batch and computes its mean loss and gradient on `parameters` (arena_size() floats, in the
  // back end's memory). A device computes asynchronously, so the returned loss belongs to the latest finished
  // batch, one or two steps ago.
  double compute(const float* parameters);
  // The same in two calls, if the arena may change during the step: take() copies the parameters to the place
  // of the gradient. REQUIRES: the back end computes on a host.
  void take(const models::Arena& arena);
  double compute_taken();
  // Sets that vector, arena_size() floats: the parameters or the gradient of a step that began elsewhere.
  void put(std::span<const float> vector, bool is_gradient);
  // Lends that vector to a worker with shared engines, which needs it only from take() to apply();
  // give_back() returns it. REQUIRES: the worker has none; the vector comes from give_back() of a worker on
  // the same network.
  void lend(kernels::Buffer vector) { gradient_ = std::move(vector); }
  kernels::Buffer give_back();
  // The result of compute(): the mean gradient of the trained parameters, followed by the changes of running
  // statistics. arena_size() floats on the host, valid until the next compute(). Waits for a device's copy.
  std::span<const float> gradient();
  // Replaces the gradient, by the mean of several workers. REQUIRES: arena_size() floats.
  void replace_gradient(std::span<const float> mean);

  // Whether batches follow one another through the stages of the network without a flush. Then feed() and
  // land() take the place of compute() and apply(), and the stages add their updates to the arena on their
  // own threads. They return the mean loss of a batch that has come out with all its updates, as
  // StreamedNetwork's; rate_factor as in apply(). The same arena until all batches have come out.
  bool streams() const { return stream_ != nullptr; }
  std::optional<double> feed(models::Arena& arena, double rate_factor);
  std::optional<double> land();
  bool must_land() const { return stream_->must_land(); }

  // Adds the update of gradient(), clipped, to the arena, at the optimizer's learning rate times
  // `rate_factor` (training/runs/experiment/schedule.h). REQUIRES: the factor is finite and not negative.
  void apply(models::Arena& arena, double rate_factor = 1);
  // Waits for the updates of all apply() calls that have returned. Any thread may call.
  void wait() { applied_->wait(); }
  // The replica was replaced by other parameters: resets the optimizer's state, and AdamW's rate rises again.
  void renew();

  // The state of the worker; a step that was computed but not applied counts as not begun. Waits for a
  // device. `arena` is its replica's. REQUIRES: no other call is active.
  WorkerState save(const models::Arena& arena);
  // The same on a host between compute() and apply(): a computed step stays computed, with gradient().
  WorkerState save_midway(const models::Arena& arena);
  // Continue from a saved state: the samples, images and random numbers, and the optimizer's state. Error,
  // and no change, if the state is of another shard or another optimizer.
  Status restore_cursor(const WorkerState& state);
  Status restore_optimizer(const WorkerState& state, const models::Arena& arena);
  // The replica was replaced by other parameters of the same run: OptimizerState::moved().
  void moved() { optimizer_.moved(); }

  // The threads that compute its steps together, and a call on each: StepNetwork.
  std::size_t threads() const { return engines_->take()->network->threads(); }
  void on_each_thread(const std::function<void(std::size_t)>& settle) {
    engines_->take()->network->on_each_thread(settle);
  }

  std::uint32_t batch_size() const { return static_cast<std::uint32_t>(indices_.size()); }

 private:
  // Per lane of the feed: the device's recording of the step, the end of its last run, and the loss of that
  // run.
  struct Step {
    std::unique_ptr<kernels::Queue::Recording> recording;
    std::unique_ptr<kernels::Queue::Mark> done;
    kernels::Staged<kernels::LossValue> loss;
    bool made = false;  // has run at least once
  };

  double compute(Engine& engine, const float* parameters, float* gradient);
  // A stage's part of an update: what it trains in the arena, if anything, and its running statistics.
  struct StagePart {
    FloatRange trained{};
    std::vector<FloatRange> statistics{};
  };
  void divide(const models::Plan& plan);
  void update_stage(const StreamedNetwork::Update& update);
  std::optional<double> landed(std::optional<double> loss);
  void need_gradient();
  static void clear(kernels::Buffer& vector);
  WorkerState save(const models::Arena& arena, bool step_begun);

  kernels::Memory& memory_;
  kernels::Memory& staging_;
  std::shared_ptr<Engines> engines_;
  const datasets::Dataset& data_;
  BatchSampler sampler_;
  std::optional<Augmenter> augmenter_;
  std::optional<RandomState> images_before_;  // the last batch
  std::uint64_t draws_ = 0;                   // batches of its network, including those before a restart
  bool under_way_ = false;                    // a step is computed but not applied
  OptimizerState optimizer_;
  std::uint64_t warm_up_;
  std::vector<std::uint32_t> indices_;
  std::vector<Step> lanes_;
  std::size_t lane_ = 0;               // of the next step
  const float* parameters_ = nullptr;  // read by the recordings
  std::size_t arena_floats_;
  kernels::Buffer gradient_;          // followed by the changes of running statistics
  bool taken_ = false;                // gradient_ holds parameters
  kernels::Buffer gradient_on_host_;  // a device's, after the first gradient()
  std::unique_ptr<kernels::Queue::Mark> applied_;

  // Of a worker that streams.
  StreamedNetwork* stream_ = nullptr;
  std::vector<StagePart> parts_;  // by stage
  models::Arena* stream_arena_ = nullptr;
  std::uint64_t stream_updates_ = 0;  // of the first stage since the stream began
};

}  // namespace starling::training

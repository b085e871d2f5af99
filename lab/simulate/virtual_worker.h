// A Hogwild worker of a virtual machine: its batches and its optimizer's state. A step takes virtual time, so
// its gradient is computed on the parameters of its beginning and added at its end; vectors of parameters and
// gradients belong to the caller. Networks compute at once, on the host, and are shared by workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "models/arena.h"
#include "models/network.h"
#include "training/learning/batches.h"
#include "training/learning/feed.h"
#include "training/learning/optimizer_state.h"
#include "training/learning/recipe.h"
#include "training/runs/records/peer_state.h"

namespace starling::lab {

// Computes gradients: a network and its input.
struct Engine {
  models::Network network;
  training::Feed feed;
  kernels::Buffer gradient{};  // scratch of a computation in place; empty before the first
};

// Engines for batches of one size. Any thread may call.
class Engines {
 public:
  // The plan, the back end and the data outlive it. REQUIRES: the back end computes on the host.
  Engines(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
          std::size_t batch, const models::NetworkOptions& options);

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

// Engines that workers of several peers may share; null if each needs its own, because its network draws
// (dropout). All arguments outlive them.
std::shared_ptr<Engines> make_shared_engines(const training::Experiment& experiment, const models::Plan& plan,
                                             const kernels::Backend& backend, const datasets::Dataset& train);

class VirtualWorker {
 public:
  // `engines`: for this plan and these batches, or null: the worker makes its own. Other references outlive
  // the worker. REQUIRES: the recipe's network is whole.
  VirtualWorker(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
                training::WorkerRecipe recipe, std::shared_ptr<Engines> engines);

  // Draws the next batch, and writes its mean gradient on `parameters` to `gradient`: the trained parameters,
  // then the changes of running statistics. Returns the mean loss. REQUIRES: arena_size() floats each; the
  // gaps of the gradient are zero.
  double compute(const float* parameters, kernels::Buffer& gradient);
  // The same in place: `vector` has the parameters, then the gradient, with zero gaps.
  double compute(kernels::Buffer& vector);
  // Makes a vector of parameters one for a gradient, whose gaps are zero.
  static void clear(kernels::Buffer& vector);
  // Adds the update of a gradient, clipped, to the arena, at the optimizer's learning rate times
  // `rate_factor`. REQUIRES: the factor is finite and not negative.
  void apply(models::Arena& arena, std::span<const float> gradient, double rate_factor);

  // The replica was replaced by other parameters: resets the optimizer's state, and AdamW's rate rises again.
  void renew() { optimizer_.renew(kernels::host_queue(), warm_up_); }
  training::OptimizerState& optimizer() { return optimizer_; }

  // Between two computed batches; a batch whose gradient is not added yet counts as drawn.
  training::WorkerState save(const models::Arena& arena) const;
  // Error if the state is of another shard or another optimizer.
  Status restore(const training::WorkerState& state, const models::Arena& arena);

  std::uint32_t batch_size() const { return batches_.size(); }

 private:
  double compute(Engine& engine, const float* parameters, kernels::Buffer& gradient);

  std::shared_ptr<Engines> engines_;
  training::Batches batches_;
  training::OptimizerState optimizer_;
  std::uint64_t warm_up_;
};

}  // namespace starling::lab

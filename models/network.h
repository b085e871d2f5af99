// A network, built once from a plan for one batch size with the operations of a back end. It owns
// activations, workspaces and its queue, and allocates nothing while it runs. Parameters and gradients are
// the caller's, in plain order as the plan's layout says. All arguments are in the back end's memory. One
// thread at a time uses a Network; several may run on one arena.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "kernels/backend.h"
#include "models/arena.h"
#include "models/section.h"
#include "models/spec.h"

namespace starling::models {

struct NetworkOptions {
  std::uint64_t seed = 0;  // of dropout's draws
  // Keep few activations and compute the others again in the backward pass (gradient checkpointing).
  bool recompute = false;
};

class Network {
 public:
  // Builds all operations for batches of `batch` samples. `backend` outlives the network.
  Network(const Plan& plan, const kernels::Backend& backend, int batch, NetworkUse purpose,
          NetworkOptions options = {});
  ~Network();
  Network(Network&&) noexcept;

  int batch() const;
  int predictions() const;  // of a batch: one for each sample, or for each token of a text
  kernels::Queue& queue();

  // Forward and backward over one full batch: `inputs` [batch, channels, height, width] and `labels` [batch]
  // in [0, classes), or for a text both [batch, context]. Writes d(mean loss)/d(parameters) to every
  // parameter's place in `gradient` (arena_size() floats; gaps are not written), and to a running statistic's
  // place the change to add to it. Returns the batch's mean softmax cross-entropy. Other threads may change
  // `parameters` meanwhile (Hogwild). REQUIRES: built for NetworkUse::train.
  double train(const float* parameters, const float* inputs, const std::int32_t* labels, float* gradient);
  // Queues the same and does not wait. `value`, in the back end's staging memory, is valid when the queue is
  // done.
  void start_training(const float* parameters, const float* inputs, const std::int32_t* labels,
                      float* gradient, kernels::LossValue* value);

  struct Evaluation {
    double loss_sum = 0;  // over the predictions
    std::int64_t correct = 0;
    std::int64_t predictions = 0;
  };
  // Forward over a batch, whose first `judged` predictions count (judged <= predictions(); all batch samples
  // must be readable). REQUIRES: built for NetworkUse::evaluate.
  Evaluation evaluate(const float* parameters, const float* inputs, const std::int32_t* labels, int judged);

  // Forward as in evaluate(). Writes the logits [count, classes], or for a text [count, context, classes].
  // REQUIRES: built for NetworkUse::evaluate on a back end of the host; `logits` has that size.
  void score(const float* parameters, const float* inputs, int count, std::span<float> logits);

  // Continues dropout's draws as after this number of batches, in the order of the queue.
  void set_draws(std::uint64_t batches);

  NetworkMemory memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Initial parameters for the plan: weights and biases as in PyTorch's default (Kaiming uniform with a =
// sqrt(5): uniform in +-1/sqrt(fan_in)), normalizations as the identity. Determined by the seed. `out` has
// arena_size() floats; gaps are zeroed.
void initialize(const Plan& plan, Random random, std::span<float> out);
// The same without a temporary copy. REQUIRES: the arena has arena_size() floats.
void initialize(const Plan& plan, Random random, Arena& arena);

}  // namespace starling::models

// A network built once, for one batch size, from a plan, by asking a back end for its operations. It owns
// activations and workspaces, and the queue in whose order it computes, and allocates nothing while it runs;
// parameters and gradients stay outside, in plain order, as the plan's layout says. All that it is given lies in
// the back end's memory. One Network serves one thread at a time; several may run on one arena.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "kernels/backend.h"
#include "models/arena.h"
#include "models/spec.h"

namespace starling::models {

enum class Purpose { train, evaluate };  // evaluate builds no backward pass

struct NetworkOptions {
  std::uint64_t seed = 0;  // of the network's own chance: dropout
  // Keep few activations and compute the others again where the backward pass wants them (gradient
  // checkpointing).
  bool recompute = false;
};

// Bytes that a network holds for one layer of its plan.
struct LayerMemory {
  // Where what the layer yields is counted: at itself, or at a later layer that one operation does together
  // with it, or, where activations are not kept, at another whose memory it uses at another time.
  int counted_at = 0;
  std::size_t activations_bytes = 0;
  std::size_t workspace_bytes = 0;  // of its operation; of one that does several layers, at the last of them
};

// Bytes that a network holds.
struct NetworkMemory {
  std::size_t activations_bytes = 0;  // kept from the forward to the backward pass
  std::size_t gradients_bytes = 0;    // of activations, not of parameters; layers share them
  std::size_t workspace_bytes = 0;    // the operations' own, and what they share
  std::size_t scratch_bytes = 0;      // of the workspace, what they share
  // As many as the plan has. They add up to the activations, and to the workspace without the scratch.
  std::vector<LayerMemory> layers;
  std::size_t total() const { return activations_bytes + gradients_bytes + workspace_bytes; }
};

class Network {
 public:
  // The plan's layers for batches of `batch` samples. Builds every primitive now.
  // `backend` outlives the network.
  Network(const Plan& plan, const kernels::Backend& backend, int batch, Purpose purpose,
          NetworkOptions options = {});
  ~Network();
  Network(Network&&) noexcept;

  int batch() const;
  kernels::Queue& queue();

  // Forward and backward over one full batch: `inputs` [batch, channels, height, width], `labels` [batch] in
  // [0, classes). Writes d(mean loss)/d(parameters) to every parameter's place in `gradient` (arena_size()
  // floats; gaps are zeroed once by the caller and never touched), and to a running statistic's place what is
  // to be added to it. Returns the batch's mean softmax cross-entropy. `parameters` may be changed by others
  // meanwhile (Hogwild). REQUIRES: built for Purpose::train.
  double train(const float* parameters, const float* inputs, const std::int32_t* labels, float* gradient);
  // Asks the queue for the same, and does not wait: `value`, in the back end's staging memory, is the batch's
  // when the queue has done it.
  void start_training(const float* parameters, const float* inputs, const std::int32_t* labels,
                      float* gradient, kernels::LossValue* value);

  struct Evaluation {
    double loss_sum = 0;  // over the samples
    std::int64_t correct = 0;
    std::int64_t samples = 0;
  };
  // Forward over the first `count` samples of a batch (count <= batch; the rest of `inputs` is ignored but
  // must be readable: batch samples). REQUIRES: built for Purpose::evaluate.
  Evaluation evaluate(const float* parameters, const float* inputs, const std::int32_t* labels, int count);

  // Forward over the first `count` samples, as evaluate(): the scores of the classes before softmax, [count, classes],
  // on the host. REQUIRES: built for Purpose::evaluate on a back end of the host; `logits` is as large.
  void score(const float* parameters, const float* inputs, int count, std::span<float> logits);

  // Its own chance (dropout) goes on as after so many batches, in the order of its queue.
  void set_draws(std::uint64_t batches);

  NetworkMemory memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fresh parameters for the plan, as the layout says each tensor starts: weights and biases He-uniform as
// PyTorch's default (Kaiming uniform with a = sqrt(5): uniform in +-1/sqrt(fan_in)), normalizations as the
// identity. A function of the seed alone. `out` holds arena_size() floats; gaps are zeroed.
void initialize(const Plan& plan, Random random, std::span<float> out);
// The same, without a second copy of them all. REQUIRES: the arena is as large.
void initialize(const Plan& plan, Random random, Arena& arena);

}  // namespace starling::models

// A network built once, for one batch size, from a plan, by asking a back end for its operations. It owns
// activations and workspaces and allocates nothing while it runs; parameters and gradients stay outside, in
// plain order, as the plan's layout says. One Network serves one thread at a time; several may run on one
// arena.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "kernels/backend.h"
#include "models/spec.h"

namespace starling::models {

enum class Purpose { train, evaluate };  // evaluate builds no backward pass

class Network {
 public:
  // The plan's layers for batches of `batch` samples. Builds every primitive now.
  Network(const Plan& plan, const kernels::Backend& backend, int batch, Purpose purpose);
  ~Network();
  Network(Network&&) noexcept;

  int batch() const;

  // Forward and backward over one full batch: `inputs` [batch, channels, height, width], `labels` [batch] in
  // [0, classes). Writes d(mean loss)/d(parameters) to every parameter's place in `gradient` (arena_size()
  // floats; gaps are zeroed once by the caller and never touched). Returns the batch's mean softmax
  // cross-entropy. `parameters` may be changed by others meanwhile (Hogwild). REQUIRES: built for
  // Purpose::train.
  double train(const float* parameters, const float* inputs, const std::int32_t* labels, float* gradient);

  struct Evaluation {
    double loss_sum = 0;  // over the samples
    std::int64_t correct = 0;
    std::int64_t samples = 0;
  };
  // Forward over the first `count` samples of a batch (count <= batch; the rest of `inputs` is ignored but
  // must be readable: batch samples).
  Evaluation evaluate(const float* parameters, const float* inputs, const std::int32_t* labels, int count);

  // Bytes this network holds: activations, their gradients, workspaces.
  std::size_t memory_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Fresh parameters for the plan: He-uniform as PyTorch's default (Kaiming uniform with a = sqrt(5): weights
// and biases uniform in +-1/sqrt(fan_in)), a function of the seed alone. `out` holds arena_size() floats;
// gaps are zeroed.
void initialize(const Plan& plan, Random random, std::span<float> out);

}  // namespace starling::models

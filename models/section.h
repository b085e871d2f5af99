// Consecutive layers of a plan, for batches of one size: the whole of a network, or the part of it that a
// stage of a pipeline computes. A Section owns activations and workspaces and allocates nothing while it
// runs. Parameters, gradients and what it reads are the caller's. All pointers are to the back end's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "models/lowering.h"
#include "models/spec.h"

namespace starling::models {

enum class NetworkUse { train, evaluate };  // evaluate builds no backward pass

// Bytes that a network holds for one layer of its plan.
struct LayerMemory {
  // The layer that counts this layer's output: itself, or the last layer of its operation, or a layer whose
  // memory it reuses at another time.
  int counted_at = 0;
  std::size_t activations_bytes = 0;
  std::size_t workspace_bytes = 0;  // of its operation; counted at the operation's last layer
};

// Bytes that a network or a section holds.
struct NetworkMemory {
  std::size_t activations_bytes = 0;  // kept from the forward to the backward pass
  std::size_t gradients_bytes = 0;    // of activations, shared by layers
  std::size_t workspace_bytes = 0;    // the operations' own, and the scratch
  std::size_t scratch_bytes = 0;      // the part of the workspace that operations share
  // One per layer of the plan. Their sums are the activations, and the workspace without the scratch.
  std::vector<LayerMemory> layers;
  std::size_t total() const { return activations_bytes + gradients_bytes + workspace_bytes; }
};

// A value that passes from a section to later ones.
struct Border {
  int layer;  // of the plan, whose output it is; LayerInfo::kInput: the batch
  kernels::Activation activation;
  bool trained = false;  // depends on parameters, so its gradient is needed
};

struct SectionOptions {
  int batch;
  NetworkUse purpose = NetworkUse::train;
  // Keep few activations and compute the others again in backward() (gradient checkpointing).
  bool recompute = false;
  int begin = 0, end;          // the layers [begin, end)
  std::vector<Border> inputs;  // what these and later layers read of earlier ones
};

// The batch as the input of a plan's first section.
Border batch_border(const Plan& plan, const Lowered& lowered, const kernels::Backend& backend, int batch);

class Section {
 public:
  // `backend` and `queue` outlive the section. REQUIRES: `inputs` are batch_border(), or outputs of earlier
  // sections, or plain as of Backend::input(), on such a back end.
  Section(const Plan& plan, const Lowered& lowered, const kernels::Backend& backend, kernels::Queue& queue,
          const SectionOptions& options);
  ~Section();
  Section(Section&&) noexcept;

  // What later layers read of these and of earlier ones, or the output of the plan's last layer.
  const std::vector<Border>& outputs() const;

  // `inputs`: a pointer for each. They are valid and unchanged from forward() to the end of backward().
  void forward(const float* parameters, std::span<const float* const> inputs);
  // Repeats the last forward(), or with set_draws() an earlier one, with the same random draws.
  void forward_again(const float* parameters, std::span<const float* const> inputs);
  // Output k of the last forward(): own memory, or where an input is.
  const float* output(std::size_t k, std::span<const float* const> inputs) const;

  // Where backward() finds d(loss)/d(output k), and overwrites it; null for an output that is not trained.
  float* output_gradient(std::size_t k);
  // Writes the gradient of the layers' parameters to their places in `gradient`.
  void backward(const float* parameters, std::span<const float* const> inputs, float* gradient);
  // d(loss)/d(input k) after backward(); null for an input that is not trained.
  const float* input_gradient(std::size_t k) const;

  // Continues random draws as after this number of batches, in the order of the queue.
  void set_draws(std::uint64_t batches);

  NetworkMemory memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::models

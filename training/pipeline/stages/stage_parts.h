// What the stages of a network on one machine compute with: for each stage sections of the plan for its
// micro-batches, and memory for what passes between stages. A stage's functions are called on its own thread,
// in the order that its machine (machine.h) gives; the messages of the machines order the stages' accesses to
// what passes between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "models/section.h"
#include "training/pipeline/recomputation.h"
#include "training/pipeline/schedule.h"
#include "training/pipeline/stages/stage_links.h"
#include "training/pipeline/stages/statistics_pool.h"

namespace starling::training {

struct StagedOptions {
  std::vector<int> cuts;  // the first layer of each stage but the first, ascending
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  // Of a batch. Without a flush a batch is not divided, and so many batches are between two updates.
  std::uint32_t micro_batches = 1;
  Recomputation recomputation = Recomputation::never;
  std::uint64_t seed = 0;  // of dropout's draws
  bool stash = true;       // the same three as StageOptions, for schedules without a flush
  bool vertical_sync = false;
};

// Bytes that a stage holds, without parameters and their gradient for the batch.
struct StageMemory {
  std::size_t sections = 0;   // activations, gradients of activations and workspaces, of all places
  std::size_t crossings = 0;  // activations that it sent and gradients that it gets, until they are read
  std::size_t gradients = 0;  // of parameters, for one micro-batch
  std::size_t versions = 0;   // of parameters, besides the newest
  std::size_t total() const { return sections + crossings + gradients + versions; }
};

// Whether a plan can be divided so. The Error says what is possible.
Status check_stages(const models::Plan& plan, int batch, const StagedOptions& options);

using FloatRange = std::pair<std::size_t, std::size_t>;  // floats of an arena: [first, second)

class StageParts {
 public:
  // For micro-batches of `samples`. `shape` is for the options, with any number of batches. `plan` and
  // `backend` outlive the parts. REQUIRES: check_stages() succeeds; the back end computes on the host.
  StageParts(const models::Plan& plan, const kernels::Backend& backend, int samples,
             const PipelineShape& shape, const StagedOptions& options);

  std::size_t stages() const { return stages_.size(); }
  bool is_last(std::size_t stage) const { return stage + 1 == stages_.size(); }
  // The most micro-batches that are between their forward and backward passes in the stage.
  std::size_t places(std::size_t stage) const { return stages_[stage].places; }
  // What the stage trains, and its running statistics. Every float of a tensor is in one stage.
  const std::vector<FloatRange>& ranges(std::size_t stage) const { return stages_[stage].ranges; }
  // All floats that the stage reads: its ranges, and tensors of earlier stages that it computes with too.
  const std::vector<FloatRange>& reads(std::size_t stage) const { return stages_[stage].reads; }
  std::vector<StatisticsPool>& statistics(std::size_t stage) { return stages_[stage].statistics; }

  // Passes of micro-batch `number`, whose dropout draws as batch `draw`. `parameters` is an arena, of which
  // the stage's reads() count; the backward pass needs those of the forward pass. `inputs` are the samples of
  // the micro-batch, for the first stage.
  void forward(std::size_t stage, std::uint64_t number, std::uint64_t draw, const float* parameters,
               const float* inputs);
  // Writes the gradient of the micro-batch to gradient(). For the last stage `labels` are those of the
  // micro-batch, and the sum of their losses is returned.
  double backward(std::size_t stage, std::uint64_t number, std::uint64_t draw, const float* parameters,
                  const float* inputs, const std::int32_t* labels);
  // An arena, of which the stage's ranges() are valid until its next backward pass.
  const float* gradient(std::size_t stage) const { return stages_[stage].gradient; }

  StageMemory memory(std::size_t stage) const;

 private:
  // A tensor of an earlier stage that another one computes with too: the embedding's weight in the output
  // layer. Its gradient goes to the stage that owns it, which adds its own.
  struct SharedTensor {
    FloatRange range;
    std::size_t owner, user;                // stages
    std::vector<kernels::Buffer> places{};  // by micro-batch
  };

  struct Stage {
    std::unique_ptr<kernels::Queue> queue{};
    std::vector<models::Section> sections{};  // by micro-batch; a single one if forward passes are repeated
    std::size_t places = 0;
    std::optional<std::uint64_t> intact{};  // the micro-batch of a single section's latest forward pass
    std::vector<FloatRange> ranges{}, reads{};
    std::vector<StatisticsPool> statistics{};
    kernels::Buffer own_gradient{};  // if it may not share the others' arena
    float* gradient = nullptr;       // of a micro-batch, an arena
  };

  bool repeats() const { return recomputation_ != Recomputation::never; }
  void build_stages(const models::Plan& plan, const kernels::Backend& backend, int samples,
                    const PipelineShape& shape, std::uint64_t seed);
  void divide_tensors(const models::Plan& plan, int samples);
  void give_tensor(const models::Plan& plan, std::size_t stage, std::size_t tensor, std::size_t owner);
  models::Section& section(std::size_t stage, std::uint64_t number);
  std::span<const float* const> inputs_of(std::size_t stage, std::uint64_t number,
                                          const float* const& inputs);
  void take_shared(std::size_t stage, std::uint64_t number);
  void give_shared(std::size_t stage, std::uint64_t number);

  kernels::Memory& memory_;
  Recomputation recomputation_;
  std::vector<int> bounds_;  // the first layer of each stage, and the number of layers
  std::vector<Stage> stages_;
  std::vector<Crossing> crossings_;  // behind each stage but the last
  std::vector<SharedTensor> shared_;
  std::unique_ptr<kernels::Loss> loss_;
  kernels::Staged<kernels::LossValue> loss_value_;
  std::size_t arena_floats_;
  kernels::Buffer micro_gradient_;  // an arena, of which each stage has its part
};

}  // namespace starling::training

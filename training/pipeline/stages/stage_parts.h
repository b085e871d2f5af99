// What the stages of a network on one machine compute with: for each replica of a stage, a part, sections of
// the plan for its micro-batches, and memory for what passes between stages. Parts are numbered as in
// PipelineShape::number_of(). A part's functions are called on its own thread, in the order that its machine
// (machine.h) gives; the messages of the machines order the parts' accesses to what passes between them. What
// they compute is done when they return.
//
// A part computes on the host or on a device of its own. Parameters, and gradients of a batch, are arenas on
// the host: a part on a device has a copy of the parameters that it reads (stage_copy.h), and the sum of the
// gradients of a batch, which it copies to the host once.
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
#include "training/pipeline/schedule.h"
#include "training/pipeline/stages/stage_copy.h"
#include "training/pipeline/stages/stage_links.h"
#include "training/pipeline/stages/stage_memory.h"
#include "training/pipeline/stages/staged_options.h"
#include "training/pipeline/stages/statistics_pool.h"

namespace starling::training {

class StageParts {
 public:
  // For micro-batches of `samples`. `shape` is shape_of() the options, for any number of batches. `plan` and
  // `backend` outlive the parts. Throws DeviceError. REQUIRES: check_stages() succeeds; `backend` computes on
  // the host.
  StageParts(const models::Plan& plan, const kernels::Backend& backend, int samples,
             const PipelineShape& shape, const StagedOptions& options);

  std::size_t parts() const { return parts_.size(); }
  std::size_t stage_of(std::size_t part) const { return parts_[part].stage; }
  std::uint32_t replica_of(std::size_t part) const { return parts_[part].replica; }
  bool is_on_device(std::size_t part) const { return parts_[part].copy.has_value(); }
  bool is_last(std::size_t part) const { return parts_[part].stage + 1 == shape_.stages(); }
  // The most micro-batches that are between their forward and backward passes in the part.
  std::size_t places(std::size_t part) const { return parts_[part].places; }
  // What the part's stage trains, and its running statistics. Every float of a tensor is in one stage.
  const std::vector<FloatRange>& ranges(std::size_t part) const { return parts_[part].ranges; }
  // All floats that the part reads: its ranges, and tensors of earlier stages that it computes with too.
  const std::vector<FloatRange>& reads(std::size_t part) const { return parts_[part].reads; }
  std::vector<StatisticsPool>& statistics(std::size_t part) { return parts_[part].statistics; }

  // What the passes of the part read for this arena on the host, of which its reads() count: the arena
  // itself, or a copy on the part's device, which `copy` then holds.
  const float* settle(std::size_t part, const float* arena, kernels::Buffer& copy);

  // Passes of micro-batch `number`, whose dropout draws as batch `draw`, with parameters from settle(); the
  // backward pass needs those of the forward pass. `inputs` are the samples of the micro-batch, on the host,
  // for the first stage. All throw DeviceError.
  void forward(std::size_t part, std::uint64_t number, std::uint64_t draw, const float* parameters,
               const float* inputs);
  // Computes the gradient of the micro-batch. For the last stage `labels` are those of the micro-batch, and
  // the sum of their losses is returned.
  double backward(std::size_t part, std::uint64_t number, std::uint64_t draw, const float* parameters,
                  const float* inputs, const std::int32_t* labels);
  // The gradient of the latest backward pass: an arena on the host, of which the part's ranges() are valid
  // until its next one.
  const float* gradient(std::size_t part);
  // The same, of which only the running statistics are valid.
  const float* statistics_change(std::size_t part);
  // Begins a sum with that gradient, or adds it. `sum` is an arena on the host. A device keeps the sum to
  // itself until finish_sum().
  void sum_gradient(std::size_t part, bool is_first, float* sum);
  void finish_sum(std::size_t part, float* sum);
  void scale_sum(std::size_t part, float* sum, float factor) const;

  std::size_t read_bytes(std::size_t part) const;  // of a copy of the parameters that it reads
  StageMemory memory(std::size_t part) const;

 private:
  // A tensor of an earlier stage that another one computes with too: the embedding's weight in the output
  // layer. Its gradient goes to the stage that owns it, which adds its own.
  struct SharedTensor {
    FloatRange range;
    std::size_t owner, user;                // stages
    std::vector<kernels::Buffer> places{};  // by micro-batch
  };

  // What crosses the cut behind a stage. Micro-batch i takes the crossing i mod the count, which connects the
  // replicas that compute it.
  struct Cut {
    std::vector<Crossing> crossings{};
    Crossing& of(std::uint64_t number) { return crossings[number % crossings.size()]; }
  };

  struct Part {
    std::size_t stage = 0;
    std::uint32_t replica = 0;
    std::unique_ptr<kernels::Queue> queue{};
    std::vector<models::Section> sections{};  // by micro-batch; a single one if forward passes are repeated
    std::size_t places = 0;
    std::optional<std::uint64_t> intact{};  // the micro-batch of a single section's latest forward pass
    std::vector<FloatRange> ranges{}, reads{};
    std::vector<StatisticsPool> statistics{};
    kernels::Buffer own_gradient{};  // if it may not share the others' arena
    float* gradient = nullptr;       // of a micro-batch, an arena on the host

    // Only parts of the last stage have these.
    std::unique_ptr<kernels::Loss> loss{};
    kernels::Staged<kernels::LossValue> loss_value{};

    const kernels::Backend* backend = nullptr;
    // Only parts on devices have these.
    std::optional<StageCopy> copy{};
    kernels::Buffer computed{}, sum{};      // gradients, of a micro-batch and of those before
    std::vector<kernels::Buffer> inputs{};  // of the first stage, by place
    kernels::Buffer labels{};               // of the last one
  };

  // The gradient that a backward pass writes, and where that has a float of the arena.
  static float* written(Part& part) { return part.copy ? part.computed.data() : part.gradient; }
  static std::size_t place_of(const Part& part, std::size_t offset) {
    return part.copy ? part.copy->place_of(offset) : offset;
  }

  bool repeats() const { return recomputation_ != Recomputation::never; }
  // The number of a micro-batch among those that the part computes.
  std::uint64_t turn(const Part& part, std::uint64_t number) const {
    return number / shape_.replicas[part.stage];
  }
  void make_parts(const kernels::Backend& backend, const StagedOptions& options);
  void divide_tensors(const models::Plan& plan, int samples);
  void give_tensor(const models::Plan& plan, Part& part, std::size_t tensor, std::size_t owner);
  void build_copy(Part& part, const models::Layout& layout, const std::vector<std::size_t>& tensors);
  void build_stages(const models::Plan& plan, int samples, std::uint64_t seed);
  void build_sections(Part& part, const models::Plan& plan, const models::Lowered& lowered, int samples,
                      const std::vector<models::Border>& borders);
  void build_cut(std::size_t stage, const std::vector<models::Border>& borders);
  models::Section& section(Part& part, std::uint64_t number);
  const float* bring_inputs(Part& part, std::uint64_t number, const float* inputs);
  std::span<const float* const> inputs_of(const Part& part, std::uint64_t number, const float* const& inputs);
  static const std::int32_t* bring_labels(Part& part, const std::int32_t* labels);
  void take_shared(Part& part, std::uint64_t number);
  void give_shared(Part& part, std::uint64_t number);
  static void download(Part& part, const kernels::Buffer& vector, std::span<const FloatRange> ranges,
                       float* arena);
  std::span<const FloatRange> statistics_of(const Part& part) const;

  Recomputation recomputation_;
  PipelineShape shape_;
  std::vector<int> bounds_;  // the first layer of each stage, and the number of layers
  std::vector<Part> parts_;
  std::vector<Cut> cuts_;  // behind each stage but the last
  std::vector<SharedTensor> shared_;
  std::size_t arena_floats_;
  std::size_t trained_floats_;      // of the arena; running statistics follow
  std::size_t batch_floats_;        // of a micro-batch
  std::size_t labels_;              // of a micro-batch
  kernels::Buffer micro_gradient_;  // an arena, of which the first replica of each stage has its part
};

}  // namespace starling::training

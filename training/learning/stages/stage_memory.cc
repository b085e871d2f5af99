#include "training/learning/stages/stage_memory.h"

#include "models/lowering.h"
#include "models/section.h"
#include "training/learning/stages/stage_copy.h"
#include "training/learning/stages/stage_layers.h"
#include "training/learning/stages/stage_links.h"

namespace starling::training {
namespace {

std::size_t bytes_of(const std::vector<models::Border>& borders, bool gradients_too) {
  std::size_t floats = 0;
  for (const models::Border& border : borders)
    floats += border.activation.floats * (gradients_too && border.trained ? 2 : 1);
  return floats * sizeof(float);
}

// Predicts one stage after the other.
class Predictor {
 public:
  Predictor(const models::Plan& plan, const kernels::Backend& backend, int samples,
            const PipelineShape& shape, const StagedOptions& options)
      : plan_(plan),
        backend_(backend),
        samples_(samples),
        shape_(shape),
        options_(options),
        lowered_(models::lower(plan, options.seed)),
        layers_(divide_layers(plan, options.cuts)),
        borders_{models::batch_border(plan, lowered_, backend, samples)} {}

  // REQUIRES: called for each stage, in their order.
  StageMemory next(std::size_t s) {
    const StageLayers& layers = layers_[s];
    const bool is_last = s + 1 == shape_.stages();
    const std::size_t places = most_in_flight(tasks_of(shape_, s, 0));
    const bool on_device = !backend_.memory().on_host();
    StageMemory memory;
    if (on_device) {
      memory.crossings = (s == 0 ? places : received_places(s)) * bytes_of(borders_, false);
      if (is_last) memory.crossings += static_cast<std::size_t>(samples_ * plan_.labels()) * sizeof(float);
    }
    memory.sections = section_bytes(layers, places);
    if (!on_device && !is_last) memory.crossings = sent_places(s) * bytes_of(borders_, true);
    add_parameters(layers, places, on_device, memory);
    return memory;
  }

 private:
  // Of micro-batches behind a replica of the stage, and before one of the next stage.
  std::size_t sent_places(std::size_t s) const { return places_at_cut(s) / shape_.replicas[s]; }
  std::size_t received_places(std::size_t s) const { return places_at_cut(s - 1) / shape_.replicas[s]; }
  std::size_t places_at_cut(std::size_t s) const {
    const std::size_t senders = shape_.replicas[s], receivers = shape_.replicas[s + 1];
    return crossings_between(senders, receivers) *
           places_of_crossing(most_in_flight(tasks_of(shape_, s, 0)), senders, receivers);
  }

  // Continues with what crosses the cut behind the layers.
  std::size_t section_bytes(const StageLayers& layers, std::size_t places) {
    const auto queue = backend_.make_queue();
    const models::Section section(plan_, lowered_, backend_, *queue,
                                  {.batch = samples_,
                                   .purpose = models::NetworkUse::train,
                                   .recompute = false,
                                   .begin = layers.begin,
                                   .end = layers.end,
                                   .inputs = borders_});
    borders_ = section.outputs();
    const std::size_t shared = queue->workspace_bytes(), own = section.memory().total() - shared;
    return shared + own * (options_.recomputation == Recomputation::never ? places : 1);
  }

  void add_parameters(const StageLayers& layers, std::size_t places, bool on_device,
                      StageMemory& memory) const {
    const bool flushes = pipeline_traits(shape_.schedule).flushes;
    const bool replicated = shape_.replicas[layers.stage] > 1;
    const bool sums = !flushes && shape_.micro_batches > 1;
    if (on_device) {
      const std::size_t copy = StageCopy(plan_.layout, layers.tensors).floats() * sizeof(float);
      memory.gradients = copy * (flushes ? 2 : 1);
      memory.versions = copy * (flushes ? 1 : places);
      return;
    }
    const std::size_t arena = plan_.layout.arena_size();
    std::size_t gradients = !layers.tied.empty() || replicated ? arena : floats_in(layers.ranges);
    if (sums || (flushes && replicated)) gradients += arena;
    memory.gradients = gradients * sizeof(float);
    if (!flushes) memory.versions = places * floats_in(layers.reads) * sizeof(float);
  }

  const models::Plan& plan_;
  const kernels::Backend& backend_;
  const int samples_;
  const PipelineShape& shape_;
  const StagedOptions& options_;
  const models::Lowered lowered_;
  const std::vector<StageLayers> layers_;
  std::vector<models::Border> borders_;  // before the next stage
};

}  // namespace

std::vector<StageMemory> predict_stage_memory(const models::Plan& plan, const kernels::Backend& backend,
                                              int samples, const PipelineShape& shape,
                                              const StagedOptions& options) {
  Predictor predictor(plan, backend, samples, shape, options);
  std::vector<StageMemory> stages;
  for (std::size_t s = 0; s < shape.stages(); ++s) stages.push_back(predictor.next(s));
  return stages;
}

}  // namespace starling::training

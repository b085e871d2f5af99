#include "training/learning/stages/stage_replica.h"

#include "models/lowering.h"

namespace starling::training {

StageReplica::StageReplica(const StageModel& model, const StageLayers& layers, std::uint32_t replica,
                           const std::vector<models::Border>& inputs, float* shared_gradient)
    : layers_(layers),
      replica_(replica),
      replicas_(model.shape.replicas[layers.stage]),
      backend_(model.backend_of(layers.stage, replica)),
      recomputation_(model.options.recomputation),
      places_(most_in_flight(tasks_of(model.shape, layers.stage, replica))),
      queue_(backend_.make_queue()) {
  float* const shared = replica > 0 || !layers.tied.empty() ? nullptr : shared_gradient;
  if (backend_.memory().on_host()) {
    buffers_ = std::make_unique<StageBuffers>(layers, model.plan.layout, shared);
  } else {
    buffers_ = std::make_unique<DeviceBuffers>(model, layers, shared, places_, backend_, *queue_);
  }
  build_sections(model, inputs);
  for (int layer = layers.begin; layer < layers.end; ++layer) {
    const models::LayerInfo& info = model.plan.layers[static_cast<std::size_t>(layer)];
    if (models::running_statistics(info)) statistics_.emplace_back(model.plan, info, model.samples);
  }
  if (!layers.is_last()) return;
  head_.emplace(Head{backend_.softmax_cross_entropy(*queue_, outputs().back().activation),
                     kernels::Staged<kernels::LossValue>(backend_.staging())});
}

void StageReplica::build_sections(const StageModel& model, const std::vector<models::Border>& inputs) {
  models::Plan plan = model.plan;
  plan.layout = buffers_->layout();
  const models::Lowered lowered = models::lower(plan, model.options.seed);
  for (std::size_t k = 0; k < (repeats() ? 1 : places_); ++k)
    sections_.emplace_back(plan, lowered, backend_, *queue_,
                           models::SectionOptions{.batch = model.samples,
                                                  .purpose = models::NetworkUse::train,
                                                  .recompute = false,
                                                  .begin = layers_.begin,
                                                  .end = layers_.end,
                                                  .inputs = inputs});
}

// ---- passes ----

std::span<const float* const> StageReplica::inputs_of(const MicroBatch& micro) {
  if (!layers_.is_first()) return before(micro).values(micro.number);
  samples_ = buffers_->inputs(turn_of(micro), micro.inputs);
  return {&samples_, 1};
}

void StageReplica::forward(const MicroBatch& micro, const float* parameters) {
  if (layers_.is_first()) {
    buffers_->bring_inputs(turn_of(micro), micro.inputs);
  } else {
    before(micro).take(micro.number, *queue_);
  }
  const auto inputs = inputs_of(micro);
  models::Section& section = section_of(micro);
  section.set_draws(micro.draw);
  section.forward(parameters, inputs);
  intact_ = micro.number;
  if (!head_) behind(micro).put(micro.number, section, inputs, *queue_);
  queue_->wait();
}

double StageReplica::backward(const MicroBatch& micro, const float* parameters) {
  const auto inputs = inputs_of(micro);
  models::Section& section = section_of(micro);
  const bool is_there = intact_ == micro.number && recomputation_ == Recomputation::except_last;
  if (repeats() && !is_there) {
    section.set_draws(micro.draw + 1);  // as after its forward pass
    section.forward_again(parameters, inputs);
    intact_ = micro.number;
  }
  if (head_) {
    head_->loss->train(section.output(0, inputs), buffers_->bring_labels(micro.labels),
                       section.output_gradient(0), head_->value.get());
  } else {
    behind(micro).take_gradients(micro.number, section, *queue_);
  }
  for (TiedGradient* tied : received_) {
    const kernels::Buffer& from = tied->of(micro.number);
    queue_->upload(from.data(), place_of(*tied), from.bytes());
  }
  section.backward(parameters, inputs, buffers_->written());
  if (!layers_.is_first()) before(micro).put_gradients(micro.number, section, *queue_);
  for (TiedGradient* tied : sent_) {
    kernels::Buffer& to = tied->of(micro.number);
    queue_->download(place_of(*tied), to.data(), to.bytes());
  }
  queue_->wait();
  return head_ ? head_->value->sum : 0;
}

StageMemory StageReplica::memory() const {
  StageMemory memory = buffers_->memory();
  for (const models::Section& section : sections_) memory.sections += section.memory().total();
  memory.sections -= (sections_.size() - 1) * queue_->workspace_bytes();
  const bool on_host = backend_.memory().on_host();
  if (on_host)
    for (const Crossing* crossing : behind_) memory.crossings += crossing->bytes();
  for (const Crossing* crossing : before_) memory.crossings += crossing->arrived_bytes();
  return memory;
}

}  // namespace starling::training

#include "training/learning/stages/stages.h"

#include "base/check.h"
#include "models/lowering.h"

namespace starling::training {

Stages::Stages(const models::Plan& plan, const kernels::Backend& backend, int samples,
               const PipelineShape& shape, const StagedOptions& options)
    : layers_(divide_layers(plan, options.cuts)), gradient_(plan.layout.arena_size(), backend.memory()) {
  STARLING_CHECK(backend.memory().on_host());
  STARLING_CHECK(options.backends.empty() || options.backends.size() == shape.all_replicas());
  const StageModel model{plan, backend, samples, shape, options};
  replicas_.reserve(shape.all_replicas());
  std::vector<models::Border> borders{
      models::batch_border(plan, models::lower(plan), model.backend_of(0, 0), samples)};
  for (const StageLayers& stage : layers_) {
    for (std::uint32_t replica = 0; replica < shape.replicas[stage.stage]; ++replica)
      replicas_.emplace_back(model, stage, replica, borders, gradient_.data());
    if (stage.stage > 0) connect(shape, stage.stage, borders);
    tie(plan, shape, stage);
    borders = replicas_.back().outputs();
  }
}

void Stages::connect(const PipelineShape& shape, std::size_t stage,
                     const std::vector<models::Border>& borders) {
  const std::uint32_t senders = shape.replicas[stage - 1], receivers = shape.replicas[stage];
  const std::size_t count = crossings_between(senders, receivers);
  for (std::size_t k = 0; k < count; ++k) {
    StageReplica& sender = replica_of(shape, stage - 1, k);
    StageReplica& receiver = replica_of(shape, stage, k);
    Crossing& crossing =
        crossings_.emplace_back(borders, places_of_crossing(sender.places(), senders, receivers), count,
                                sender.backend(), receiver.backend());
    sender.send_over(crossing);
    receiver.receive_over(crossing);
  }
}

void Stages::tie(const models::Plan& plan, const PipelineShape& shape, const StageLayers& user) {
  for (const StageLayers::Tied& it : user.tied) {
    const std::size_t kept = replica_of(shape, it.owner, 0).places() * shape.replicas[it.owner];
    TiedGradient& tied = tied_.emplace_back(TiedGradient{it.tensor});
    for (std::size_t k = 0; k < kept; ++k)
      tied.places.emplace_back(plan.layout.tensors()[it.tensor].size,
                               replica_of(shape, user.stage, 0).backend().staging());
    for (StageReplica& replica : replicas_) {
      if (replica.stage() == user.stage) replica.send_gradient(tied);
      if (replica.stage() == it.owner) replica.receive_gradient(tied);
    }
  }
}

}  // namespace starling::training

#include "training/learning/stages/staged_options.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace starling::training {

PipelineShape shape_of(const StagedOptions& options, std::uint64_t batches) {
  PipelineShape shape{options.replicas, options.schedule, options.micro_batches, batches};
  if (shape.replicas.empty()) shape.replicas.assign(options.cuts.size() + 1, 1);
  if (pipeline_traits(options.schedule).flushes) return shape;
  std::uint64_t round = 1;
  for (const std::uint32_t replicas : shape.replicas)
    round = std::lcm(round, std::max<std::uint64_t>(1, replicas));
  shape.batches = (batches + round - 1) / round * round;
  return shape;
}

Status check_stages(const models::Plan& plan, int batch, const StagedOptions& options) {
  const auto layers = static_cast<int>(plan.layers.size());
  if (options.cuts.size() + 1 > plan.layers.size()) {
    return Error{std::to_string(options.cuts.size() + 1) + " stages are impossible: " + plan.spec.name +
                 " has " + std::to_string(layers) + " layers, so at most as many stages"};
  }
  int before = 0;
  for (const int cut : options.cuts) {
    if (cut <= before || cut >= layers) {
      return Error{"a stage cannot begin with layer " + std::to_string(cut) +
                   ": cuts are ascending, from 1 to " + std::to_string(layers - 1)};
    }
    before = cut;
  }
  if (!options.replicas.empty() && options.replicas.size() != options.cuts.size() + 1) {
    return Error{std::to_string(options.replicas.size()) + " numbers of replicas, but " +
                 std::to_string(options.cuts.size() + 1) + " stages"};
  }
  const PipelineShape shape = shape_of(options);
  if (const Status possible = check_shape(shape); !possible) return possible;
  const bool flushes = pipeline_traits(options.schedule).flushes;
  if (!flushes && options.vertical_sync &&
      std::ranges::count(shape.replicas, shape.replicas[0]) != static_cast<std::ptrdiff_t>(shape.stages())) {
    return Error{"with vertical sync all stages need as many replicas: one with fewer makes more updates"};
  }
  if (flushes && batch % static_cast<int>(options.micro_batches) != 0) {
    return Error{"a batch of " + std::to_string(batch) + " samples cannot be divided into " +
                 std::to_string(options.micro_batches) + " micro-batches of equal size"};
  }
  return Done{};
}

}  // namespace starling::training

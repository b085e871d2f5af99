// What each stage of a network has of its plan: consecutive layers, and the tensors of an arena that they
// compute with. A tensor is trained by one stage, the first one that computes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "models/spec.h"
#include "training/learning/stages/staged_options.h"
#include "training/planner/schedule.h"

namespace starling::training {

using FloatRange = std::pair<std::size_t, std::size_t>;  // floats of an arena: [first, second)

std::size_t floats_in(std::span<const FloatRange> ranges);
// to = from or, unless it is the first of a sum, to += from. Both are arenas on the host, of which only the
// ranges count.
void sum_ranges(std::span<const FloatRange> ranges, bool is_first, const float* from, float* to);

struct StageLayers {
  // A tensor that an earlier stage trains: the embedding's weight in the output layer.
  struct Tied {
    std::size_t tensor;
    std::size_t owner;  // that stage
  };

  std::size_t stage = 0, stages = 1;
  int begin = 0, end = 0;              // the layers [begin, end) of the plan
  std::vector<std::size_t> tensors{};  // indices into the layout, ascending
  std::vector<FloatRange> reads{};     // their floats
  std::vector<FloatRange> ranges{};    // what the stage trains, and then its running statistics; ascending
  std::size_t trained = 0;             // of these ranges
  std::vector<Tied> tied{};

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
  std::span<const FloatRange> statistics() const { return std::span(ranges).subspan(trained); }
};

// What the replicas of all stages are made of.
struct StageModel {
  const models::Plan& plan;
  const kernels::Backend& backend;  // unless the options name others
  int samples;                      // of a micro-batch
  const PipelineShape& shape;
  const StagedOptions& options;

  const kernels::Backend& backend_of(std::size_t stage, std::uint32_t replica) const {
    return options.backends.empty() ? backend : *options.backends[shape.number_of(stage, replica)];
  }
};

// For each stage. `cuts`: the first layer of each stage but the first, ascending.
std::vector<StageLayers> divide_layers(const models::Plan& plan, const std::vector<int>& cuts);

}  // namespace starling::training

#include "training/planner/profiling/operations.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace starling::training {
namespace {

using models::LayerInfo;

// For each layer the last one that reads its output, or itself.
std::vector<std::size_t> last_readers(const models::Plan& plan) {
  std::vector<std::size_t> last(plan.layers.size());
  for (std::size_t i = 0; i < last.size(); ++i) {
    last[i] = i;
    for (const int read : {plan.layers[i].from, plan.layers[i].other})
      if (read >= 0) last[static_cast<std::size_t>(read)] = i;
  }
  return last;
}

}  // namespace

PipelineProfile profile_by_operations(const models::Plan& plan, double batch, double seconds) {
  double all = 0;
  for (const LayerInfo& layer : plan.layers) all += layer.flops_forward;
  const double forward = all > 0 ? seconds / 3 / all : 0;  // seconds for an operation of a sample
  const std::vector<std::size_t> last = last_readers(plan);
  std::vector<ProfiledLayer> layers;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerInfo& layer = plan.layers[i];
    double crossing = i + 1 == plan.layers.size() ? layer.output.size() : 0;
    for (std::size_t k = 0; k <= i; ++k)
      if (last[k] > i) crossing += plan.layers[k].output.size();
    layers.push_back({.name = layer.name,
                      .forward = forward * layer.flops_forward,
                      .backward = 2 * forward * layer.flops_forward,
                      .activations = batch * crossing * sizeof(float),
                      .parameters = static_cast<double>(layer.parameters * sizeof(float))});
  }
  return chain_profile(std::move(layers));
}

}  // namespace starling::training

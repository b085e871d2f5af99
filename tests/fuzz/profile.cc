// A file that claims to be a profile of PipeDream: an error, or a profile that is valid, with cuts that
// partition its layers, and a plan with every device in a stage.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "training/planner/cuts.h"
#include "training/planner/partition.h"
#include "training/planner/profile.h"

using namespace starling;

namespace {

void check_plan(const training::PipelineCuts& cuts, std::size_t layers) {
  constexpr std::size_t kMostPlanned = 40;  // cuts: plans of more take too long for a fuzzer
  if (cuts.size() > kMostPlanned) return;
  const training::PlanRequest request{.levels = {{3, 1e9}}};
  const auto plan = training::plan_pipeline(cuts, request);
  if (!plan) {
    STARLING_CHECK(!plan.error().message.empty());
    return;
  }
  std::vector<int> stages(layers, 0);
  int devices = 0;
  for (const training::PipelineStage& stage : plan->stages) {
    devices += stage.replicas;
    for (const std::size_t layer : stage.layers) ++stages.at(layer);
  }
  STARLING_CHECK(devices == 3);
  STARLING_CHECK(std::ranges::all_of(stages, [](int count) { return count == 1; }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto profile =
      training::read_pipedream_profile(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!profile) {
    STARLING_CHECK(!profile.error().message.empty() && profile.error().message.size() < 1000);
    return 0;
  }
  STARLING_CHECK(training::check_profile(*profile).ok());
  const auto cuts = training::find_cuts(*profile);
  if (!cuts) {
    STARLING_CHECK(!cuts.error().message.empty());
    return 0;
  }
  STARLING_CHECK(cuts->size() > 0 && cuts->layers.back().size() == profile->layers.size());
  check_plan(*cuts, profile->layers.size());
  return 0;
}

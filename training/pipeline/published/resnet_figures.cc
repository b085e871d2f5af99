// resnet101_figures() of figures.h.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/spec.h"
#include "training/pipeline/partition.h"
#include "training/pipeline/profiling/operations.h"
#include "training/pipeline/published/figures.h"
#include "training/pipeline/published/resnet101.h"
#include "training/pipeline/timing.h"

namespace starling::training {
namespace {

constexpr double kBaseline = 95.862;  // samples per second of the network on one device, not divided
constexpr double kLinkBytes = 16e9;   // per second, of PCIe 3.0 with 16 lanes
constexpr const char* kReadme = "torchgpipe, benchmarks/resnet101-speed (8 Tesla P40)";
constexpr const char* kFigure3 = "Huang et al., arXiv 1811.06965v4, figure 3(b), as torchgpipe read it";

struct DividedResnet {
  std::uint32_t stages, micro_batches;
  double batch;
  double torchgpipe, gpipe;
};

constexpr std::array<DividedResnet, 4> kDivided{{
    {1, 2, 220, 0.853, 0.80},
    {2, 1667, 25'000, 1.414, 1.42},
    {4, 256, 5'632, 2.774, 2.18},
    {8, 150, 5'400, 4.294, 2.89},
}};

// How many times as fast as the baseline.
Result<double> speed_up(const models::Plan& network, const DividedResnet& row) {
  const double samples = row.batch / row.micro_batches;
  const PipelineProfile profile = profile_by_operations(network, samples, samples / kBaseline);
  PlanRequest request{.levels = {{static_cast<int>(row.stages), kLinkBytes}}};
  request.replicas.assign(row.stages, 1);
  request.schedule = {PipelineSchedule::gpipe, static_cast<int>(row.micro_batches)};
  const auto plan = plan_pipeline(profile, request);
  if (!plan) return plan.error();
  PipelineTimes times;
  for (const PipelineStage& stage : plan->stages) {
    StageTimes its{.forward = 0, .backward = 0};
    for (const std::size_t layer : stage.layers) {
      its.forward += profile.layers[layer].forward;
      its.backward += profile.layers[layer].backward;
    }
    its.recomputation = its.forward;
    times.stages.push_back(its);
    if (times.stages.size() > 1) times.links.push_back({.bandwidth = kLinkBytes, .bytes = stage.received});
  }
  const PipelineShape shape{.replicas = std::vector<std::uint32_t>(row.stages, 1),
                            .schedule = PipelineSchedule::gpipe,
                            .micro_batches = row.micro_batches,
                            .batches = 1};
  return row.batch / kBaseline / time_pipeline(shape, times).seconds;
}

std::string setting_of(const DividedResnet& row) {
  return "ResNet-101, K " + std::to_string(row.stages) + ", M " + std::to_string(row.micro_batches);
}

}  // namespace

Result<std::vector<PublishedFigure>> resnet101_figures() {
  const models::Plan network = resnet101_plan();
  std::vector<PublishedFigure> figures, others;
  for (const DividedResnet& row : kDivided) {
    const auto ours = speed_up(network, row);
    if (!ours) return ours.error();
    figures.push_back({.work = "torchgpipe",
                       .setting = setting_of(row),
                       .baseline = "one device",
                       .source = kReadme,
                       .published = row.torchgpipe,
                       .ours = *ours,
                       .reason = row.stages == 1
                                     ? "both: one of two micro-batches is recomputed"
                                     : "ours takes operations for time, and has no cost of a pass"});
    others.push_back({.work = "GPipe",
                      .setting = setting_of(row),
                      .baseline = "one device",
                      .source = kFigure3,
                      .published = row.gpipe,
                      .ours = *ours,
                      .reason = "its M is not known to us; ours is that of torchgpipe"});
  }
  figures.insert(figures.end(), others.begin(), others.end());
  return figures;
}

}  // namespace starling::training

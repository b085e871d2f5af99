#include "training/planner/prediction.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "training/planner/cuts.h"
#include "training/planner/partition.h"

namespace starling::training {
namespace {

constexpr std::uint64_t kMostPasses = 2'000'000;  // that the virtual pipeline computes

// The smallest number that all replicas divide; 0 if it is larger than kMostPasses.
std::uint64_t common_multiple(const std::vector<std::uint32_t>& replicas) {
  std::uint64_t multiple = 1;
  for (const std::uint32_t count : replicas) {
    multiple = std::lcm(multiple, std::uint64_t{count});
    if (multiple > kMostPasses) return 0;
  }
  return multiple;
}

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

PipelineTimes times_of(const PipelinePlan& plan, const PipelineProfile& profile, const PlanRequest& request,
                       const PipelineShape& shape) {
  const bool flushes = pipeline_traits(shape.schedule).flushes;
  PipelineTimes times;
  for (const PipelineStage& stage : plan.stages) {
    StageTimes its{.forward = 0, .backward = 0};
    for (const std::size_t layer : stage.layers) {
      its.forward += profile.layers[layer].forward;
      its.backward += profile.layers[layer].backward;
    }
    const double hidden = request.cost != StageCost::overlapped ? 0
                          : flushes                             ? its.backward
                                    : shape.micro_batches * (its.forward + its.backward);
    its.share = std::max(0.0, stage.synchronization - hidden);
    times.stages.push_back(its);
    if (times.stages.size() > 1 && request.cost != StageCost::added_without_transfers)
      times.links.push_back({.bandwidth = stage.bandwidth, .bytes = stage.received});
  }
  return times;
}

double busy_seconds(const PipelineTrace& trace) {
  double busy = 0;
  for (const PipelineTrace::Replica& replica : trace.replicas) busy += replica.busy;
  return busy;
}

// Sets the trace and what follows from it. Without a flush, a run of twice as many mini-batches takes longer
// by those that neither begin nor end a run.
void run_schedule(PipelinePrediction& prediction, const PipelineTimes& times) {
  PipelineShape shape = prediction.shape;
  prediction.trace = time_pipeline(shape, times);
  prediction.scheduled = prediction.trace.seconds;
  prediction.bubble = prediction.trace.bubble();
  if (pipeline_traits(shape.schedule).flushes) return;
  shape.batches *= 2;
  const PipelineTrace longer = time_pipeline(shape, times);
  const double seconds = longer.seconds - prediction.trace.seconds;
  const double busy = busy_seconds(longer) - busy_seconds(prediction.trace);
  prediction.scheduled = seconds / static_cast<double>(prediction.shape.batches);
  prediction.bubble =
      seconds > 0 ? 1 - busy / (seconds * static_cast<double>(prediction.trace.replicas.size())) : 0;
}

Status choose_shape(const PipelinePlan& plan, const PlanRequest& request, PipelineShape& shape) {
  shape.schedule = request.schedule.schedule;
  shape.micro_batches = static_cast<std::uint32_t>(request.schedule.micro_batches);
  for (const PipelineStage& stage : plan.stages)
    shape.replicas.push_back(static_cast<std::uint32_t>(stage.replicas));
  const std::uint64_t multiple = common_multiple(shape.replicas);
  const PipelineTraits& rule = pipeline_traits(shape.schedule);
  // Without a flush, enough for every replica to compute several micro-batches.
  const std::uint64_t least = 4 * static_cast<std::uint64_t>(plan.devices) / shape.micro_batches + 4;
  if (multiple > 0 && rule.flushes && rule.splits)
    shape.micro_batches = static_cast<std::uint32_t>(rounded_up(shape.micro_batches, multiple));
  if (multiple > 0 && !rule.flushes) shape.batches = rounded_up(least, multiple);
  if (multiple == 0 || 3 * shape.all_micro_batches() * shape.stages() > kMostPasses) {
    return Error{
        "the replicas of the stages share micro-batches equally only with too many of them to time the "
        "schedule: give the replicas of each stage, or fewer micro-batches."};
  }
  return check_shape(shape);
}

}  // namespace

Result<PipelinePrediction> predict_pipeline(const PipelineProfile& profile, const PlanRequest& request) {
  const Result<PipelineCuts> cuts = find_cuts(profile);
  if (!cuts) return cuts.error();
  Result<PipelinePlan> plan = plan_pipeline(*cuts, request);
  if (!plan) return plan.error();
  PipelinePrediction prediction;
  if (Status fits = choose_shape(*plan, request, prediction.shape); !fits) return fits.error();
  PlanRequest changed = request;
  changed.schedule.micro_batches = static_cast<int>(prediction.shape.micro_batches);
  if (changed.schedule.micro_batches != request.schedule.micro_batches && request.levels.size() == 1) {
    // The same stages, with the times of this number of micro-batches.
    changed.replicas.clear();
    changed.cuts.clear();
    for (const PipelineStage& stage : plan->stages) {
      changed.replicas.push_back(stage.replicas);
      if (stage.begin > 0) changed.cuts.push_back(stage.begin);
    }
    plan = plan_pipeline(*cuts, changed);
    if (!plan) return plan.error();
  }
  prediction.plan = *std::move(plan);
  const double micro_batches = changed.schedule.micro_batches;
  prediction.planned = prediction.plan.seconds * micro_batches;
  prediction.one_device = prediction.plan.one_device * micro_batches;
  prediction.data_parallel = prediction.plan.data_parallel * micro_batches;
  run_schedule(prediction, times_of(prediction.plan, profile, changed, prediction.shape));
  return prediction;
}

}  // namespace starling::training

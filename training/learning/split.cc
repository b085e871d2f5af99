#include "training/learning/split.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.h"
#include "training/learning/recipe.h"
#include "training/learning/slices/sliced_network.h"
#include "training/learning/stages/staged_network.h"
#include "training/planner/partition.h"
#include "training/planner/profiling/measured_profile.h"
#include "training/planner/profiling/operations.h"

namespace starling::training {
namespace {

constexpr double kFlopsPerSecond = 50e9;
constexpr double kBytesPerSecond = 5e9;  // between the processors of one machine, through its memory

// With these replicas of each stage, or with those that the planner chooses.
Result<PipelinePlan> planned(const PipelineProfile& profile, const Experiment& experiment, int micro_batches,
                             std::vector<int> replicas) {
  const int devices = static_cast<int>(experiment.training.devices.size());
  const PlanRequest request{.levels = {{devices, kBytesPerSecond}},
                            .replicas = std::move(replicas),
                            .schedule = {experiment.pipeline.schedule, micro_batches}};
  return plan_pipeline(profile, request);
}

std::vector<int> cuts_of(const PipelinePlan& plan) {
  std::vector<int> cuts;
  for (std::size_t s = 1; s < plan.stages.size(); ++s)
    cuts.push_back(static_cast<int>(plan.stages[s].layers.front()));
  return cuts;
}

std::vector<int> one_for_each(const Experiment& experiment) {
  return std::vector<int>(experiment.training.devices.size(), 1);
}

// The cuts into stages with the replicas that are set, else with one for each device.
Result<std::vector<int>> settled_cuts(const PipelineProfile& profile, const Experiment& experiment,
                                      int micro_batches) {
  std::vector<int> replicas = experiment.pipeline.stage_replicas;
  if (replicas.empty()) replicas = one_for_each(experiment);
  const auto plan = planned(profile, experiment, micro_batches, std::move(replicas));
  return plan ? Result<std::vector<int>>(cuts_of(*plan)) : plan.error();
}

// The stages of a plan that has several; no cuts if its replicas cannot divide the batch.
Settled with_plan(const Settled& settled, const Experiment& experiment, const PipelinePlan& planned_stages,
                  const models::Plan& plan) {
  Settled its = settled;
  its.pipeline.cuts = cuts_of(planned_stages);
  for (const PipelineStage& stage : planned_stages.stages)
    its.pipeline.stage_replicas.push_back(stage.replicas);
  const bool straight = its.pipeline.stage_replicas == std::vector<int>(planned_stages.stages.size(), 1);
  if (straight) its.pipeline.stage_replicas.clear();
  its.pipeline.micro_batches = experiment.pipeline.micro_batches;
  its.pipeline.micro_batches = resolved_micro_batches(its, its.training.devices.size());
  const auto form = std::get<StagedOptions>(network_form(its, 0));
  return check_stages(plan, static_cast<int>(its.training.batch_size), form) ? its : settled;
}

// Data or stages, whichever has a batch more often in the planner's opinion. `stages`: settled but for the
// cuts.
Result<Settled> planned_split(Settled stages, const Experiment& experiment, const models::Plan& plan,
                              const PipelineProfile& profile) {
  const int parts = static_cast<int>(stages.pipeline.micro_batches);
  const auto free = planned(profile, experiment, parts, {});
  if (!free) return Error{"training.split: " + free.error().message};
  const auto straight = planned(profile, experiment, parts, one_for_each(experiment));
  const double micro_batches = pipeline_traits(experiment.pipeline.schedule).flushes ? parts : 1;
  const auto every = [&](double seconds) {
    return "every " + format_number(std::round(1e6 * seconds * micro_batches) / 1e3) + " ms";
  };
  stages.why = "; the planner expects a batch ";
  if (free->stages.size() == 1) {
    stages.training.split = Split::data;
    stages.why += every(free->seconds) + (straight ? ", with stages " + every(straight->seconds)
                                                   : ", and no stages: " + straight.error().message);
    return stages;
  }
  Settled settled = with_plan(stages, experiment, *free, plan);
  const bool divides = !settled.pipeline.cuts.empty();
  if (!divides && !straight) return Error{"training.split: " + straight.error().message};
  if (!divides) settled.pipeline.cuts = cuts_of(*straight);
  settled.why += every((divides ? free : straight)->seconds) + ", with data " + every(free->data_parallel);
  return settled;
}

std::string layers_text(const models::Plan& plan, int begin, int end) {
  const std::string first = plan.layers[static_cast<std::size_t>(begin)].name;
  const std::string last = plan.layers[static_cast<std::size_t>(end) - 1].name;
  return first == last ? first : first + " to " + last;
}

}  // namespace

PipelineProfile estimated_profile(const models::Plan& plan, int batch) {
  PipelineProfile profile = profile_by_operations(plan, batch, 1);  // for its bytes
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const models::LayerInfo& info = plan.layers[i];
    profile.layers[i].forward =
        batch * (info.flops_forward / kFlopsPerSecond +
                 sizeof(float) * static_cast<double>(info.output.size()) / kBytesPerSecond);
    profile.layers[i].backward = 2 * profile.layers[i].forward;
  }
  return profile;
}

Result<Settled> settle_split(const Experiment& experiment, const models::Plan& plan,
                             const kernels::Backend* backend) {
  Settled settled{experiment};
  if (experiment.training.devices.size() < 2) return settled;
  const std::size_t devices = experiment.training.devices.size();
  const bool open = experiment.training.split == Split::automatic;
  const int batch = static_cast<int>(experiment.training.batch_size);
  if (experiment.training.split == Split::layers) {
    const Status fits = check_slices(plan, batch, {.parts = devices, .seed = 0});
    return fits ? Result<Settled>(settled) : Error{"training.split: " + fits.error().message};
  }
  if (!open && experiment.training.split != Split::stages) return settled;
  const std::uint32_t micro_batches = resolved_micro_batches(experiment, devices);
  const int parts = static_cast<int>(micro_batches);
  const bool flushes = pipeline_traits(experiment.pipeline.schedule).flushes;
  const int micro = flushes ? std::max(1, batch / parts) : batch;
  settled.training.split = Split::stages;
  settled.pipeline.micro_batches = micro_batches;
  const std::size_t replicated = experiment.pipeline.stage_replicas.size();
  const std::size_t stages = replicated > 0 ? replicated : devices;
  if (stages > plan.layers.size()) {
    return Error{"training.split: " + std::to_string(stages) + " stages are impossible: " + plan.spec.name +
                 " has " + std::to_string(plan.layers.size()) + " layers, so at most as many stages"};
  }
  if (open && experiment.pipeline.cuts.empty() && replicated == 0) {
    const PipelineProfile profile =
        backend != nullptr ? measure_profile(plan, *backend, micro).profile : estimated_profile(plan, micro);
    auto chosen = planned_split(settled, experiment, plan, profile);
    if (!chosen || chosen->training.split == Split::data) return chosen;
    settled = std::move(*chosen);
  } else if (open) {
    settled.why = "; stages, because cuts or replicas of stages are set";
  }
  if (settled.pipeline.cuts.empty() && stages > 1) {
    const auto cuts = settled_cuts(estimated_profile(plan, micro), experiment, parts);
    if (!cuts) return Error{"training.split: " + cuts.error().message};
    settled.pipeline.cuts = *cuts;
  }
  const auto form = std::get<StagedOptions>(network_form(settled, 0));
  if (const Status fits = check_stages(plan, batch, form); !fits)
    return Error{"training.split: " + fits.error().message};
  return settled;
}

std::vector<std::string> stage_layers(const Experiment& experiment, const models::Plan& plan) {
  std::vector<std::string> stages;
  int begin = 0;
  for (const int cut : experiment.pipeline.cuts) {
    stages.push_back(layers_text(plan, begin, cut));
    begin = cut;
  }
  stages.push_back(layers_text(plan, begin, static_cast<int>(plan.layers.size())));
  return stages;
}

std::string split_text(const Experiment& experiment, const models::Plan& plan) {
  if (has_divided_layers(experiment))
    return "each layer in " + std::to_string(experiment.training.devices.size()) + " parts";
  if (!has_stages(experiment)) return "data";
  std::vector<std::string> stages = stage_layers(experiment, plan);
  const std::vector<int>& replicas = experiment.pipeline.stage_replicas;
  for (std::size_t s = 0; s < replicas.size(); ++s)
    if (replicas[s] > 1) stages[s] += " on " + std::to_string(replicas[s]) + " devices";
  const std::uint32_t parts = experiment.pipeline.micro_batches;
  std::string text = std::to_string(stages.size()) + (stages.size() == 1 ? " stage: " : " stages: ") +
                     joined(stages, ", ") + "; " +
                     std::string(pipeline_traits(experiment.pipeline.schedule).name);
  if (parts > 1 && !pipeline_traits(experiment.pipeline.schedule).flushes) {
    text += ", an update for " + std::to_string(parts) + " batches";
  } else if (parts > 1) {
    text += ", " + std::to_string(parts) + " micro-batches of " +
            std::to_string(experiment.training.batch_size / parts) + " samples";
  }
  return text;
}

}  // namespace starling::training

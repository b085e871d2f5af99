#include "training/learning/stage_records.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "training/learning/split.h"
#include "training/planner/schedule.h"

namespace starling::training {
namespace {

using Entry = PipelineTrace::Entry;

constexpr std::array<const char*, 3> kPassNames = {"forward", "backward", "update"};

// By stage: the number of its first replica; at the end, of all replicas.
std::vector<std::size_t> first_replicas(const PipelineTrace& trace) {
  std::vector<std::size_t> first;
  for (std::size_t number = 0; number < trace.replicas.size(); ++number)
    if (trace.replicas[number].replica == 0) first.push_back(number);
  first.push_back(trace.replicas.size());
  return first;
}

// In virtual time an update takes none.
bool is_shown(const Entry& entry) {
  return entry.work.task.kind != StageTask::Kind::update || entry.end > entry.begin;
}

}  // namespace

PipelineRecord describe_stages(const Experiment& experiment, const models::Plan& plan) {
  PipelineRecord record;
  record.schedule = pipeline_traits(experiment.pipeline.schedule).name;
  record.micro_batches = experiment.pipeline.micro_batches;
  const std::vector<std::string> layers = stage_layers(experiment, plan);
  const std::vector<int>& replicas = experiment.pipeline.stage_replicas;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const int count = replicas.empty() ? 1 : replicas[s];
    for (int replica = 1; replica <= count; ++replica) {
      PipelineRecord::Stage& stage = record.stages.emplace_back();
      stage.layers = layers[s] + (count > 1 ? ", replica " + std::to_string(replica) : "");
      stage.device = experiment.training.devices[record.stages.size() - 1];
    }
  }
  return record;
}

void add_trace(const PipelineTrace& trace, std::uint64_t steps, PipelineRecord& record) {
  STARLING_CHECK(record.stages.size() == trace.replicas.size());
  const std::vector<std::size_t> first = first_replicas(trace);
  double idle = 0;
  for (std::size_t number = 0; number < record.stages.size(); ++number) {
    const PipelineTrace::Replica& from = trace.replicas[number];
    PipelineRecord::Stage& stage = record.stages[number];
    stage.name = std::to_string(from.stage + 1);
    if (first[from.stage + 1] - first[from.stage] > 1) stage.name += "." + std::to_string(from.replica + 1);
    stage.busy_seconds = from.busy;
    stage.waiting_seconds = std::max(0.0, trace.seconds - from.busy);
    stage.idle = trace.seconds > 0 ? stage.waiting_seconds / trace.seconds : 0;
    stage.micro_batches_kept = from.most_in_flight;
    stage.versions = from.most_versions;
    idle += stage.idle;
  }
  record.steps = steps;
  record.step_seconds = steps > 0 ? trace.seconds / static_cast<double>(steps) : 0;
  record.bubble = idle / static_cast<double>(record.stages.size());
  for (const Entry& entry : trace.entries) {
    if (!is_shown(entry) || record.passes.size() == kMostPasses) continue;
    record.passes.push_back({.stage = first[entry.stage] + entry.replica + 1,
                             .pass = kPassNames.at(static_cast<std::size_t>(entry.work.task.kind)),
                             .micro_batch = entry.work.task.number,
                             .begin_seconds = entry.begin,
                             .end_seconds = entry.end});
  }
}

}  // namespace starling::training

#include "cli/commands/study/plan_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "cli/commands/study/pipeline_drawing.h"
#include "cli/shell/output.h"
#include "training/planner/schedule.h"
#include "training/runs/records/json.h"

namespace starling::cli {
namespace {

using training::Json;
using training::PipelineStage;
using training::StageCost;

constexpr double kBitsOfByte = 8;
constexpr std::uint64_t kTimedMicroBatches = 8;  // in JSON

std::string ms(double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); }

// For a table, where "0.000 ms" would hide that there is nothing to do.
std::string ms_or_dash(double seconds) { return seconds > 0 ? ms(seconds) : "-"; }

std::string bytes_or_dash(double bytes) { return bytes > 0 ? format_bytes(bytes) : "-"; }

std::string times_as_fast(double before, double seconds) {
  return seconds > 0 ? fmt::format("{:.3f}x", before / seconds) : "-";
}

std::string_view schedule_name(const PlanReport& report) {
  return training::pipeline_traits(report.prediction.shape.schedule).name;
}

std::string plural(std::uint64_t count, const char* what, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? what : several);
}

// "4 devices, 1Gbit/s", "2 racks of 4 devices, 16Gbit/s within and 1Gbit/s between them".
std::string devices_text(const training::PlanRequest& request) {
  const auto rate = [&](std::size_t level) {
    return format_bandwidth(kBitsOfByte * request.levels[level].bandwidth);
  };
  const auto devices = static_cast<std::uint64_t>(request.levels[0].count);
  const std::string of_one = plural(devices, "device", "devices");
  if (request.levels.size() == 1) return of_one + " with " + rate(0) + " between them";
  return fmt::format("{} racks of {}, with {} within and {} between them", request.levels[1].count, of_one,
                     rate(0), rate(1));
}

std::string head_text(const PlanReport& report) {
  const auto micro_batches = report.prediction.shape.micro_batches;
  std::string text =
      fmt::format("{} on {}; {}, ", report.name, devices_text(report.request), schedule_name(report));
  text += plural(micro_batches, "micro-batch", "micro-batches");
  if (report.samples)
    text += " of " + plural(static_cast<std::uint64_t>(*report.samples), "sample", "samples");
  text += " for each update\n";
  if (static_cast<int>(micro_batches) != report.asked_micro_batches) {
    text +=
        fmt::format("{} micro-batches instead of {}, which the replicas of a stage cannot share equally\n",
                    micro_batches, report.asked_micro_batches);
  }
  if (!report.device.empty()) {
    text += fmt::format(
        "measured on {}: a micro-batch takes {} forward and backward; layers by themselves take {},\n"
        "so their times are scaled\n",
        report.device, ms(report.whole), ms(report.by_layers));
  }
  return text;
}

std::string range_text(const PlanReport& report, const PipelineStage& stage) {
  const std::string& first = report.layers[stage.layers.front()];
  if (stage.layers.size() == 1) return first;
  return first + " to " + report.layers[stage.layers.back()];
}

std::string stages_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows = {{"stage", "layers", "number", "replicas", "computing",
                                                 "synchronization", "received", "transfer", "parameters",
                                                 "memory"}};
  for (const PipelineStage& stage : report.prediction.plan.stages) {
    rows.push_back({std::to_string(rows.size()), range_text(report, stage),
                    std::to_string(stage.layers.size()), std::to_string(stage.replicas),
                    ms(stage.computation), ms_or_dash(stage.synchronization), bytes_or_dash(stage.received),
                    ms_or_dash(stage.transfer), bytes_or_dash(stage.parameters), format_bytes(stage.memory)});
  }
  return aligned(rows, 2) +
         "for a micro-batch: computing by a replica, bytes from the stage before (as many go back), "
         "transfer\n"
         "for an update: synchronization of replicas; of a device: parameters, memory without the "
         "optimizer's\n";
}

std::string times_table(const PlanReport& report) {
  const training::PipelinePrediction& it = report.prediction;
  std::vector<std::vector<std::string>> rows = {
      {"predicted", "mini-batch", "over one device", "over data parallelism"}};
  const auto add = [&](const std::string& what, double seconds) {
    rows.push_back(
        {what, ms(seconds), times_as_fast(it.one_device, seconds), times_as_fast(it.data_parallel, seconds)});
  };
  add("slowest stage or transfer", it.planned);
  add(fmt::format("with the schedule {}", schedule_name(report)), it.scheduled);
  add("data parallelism", it.data_parallel);
  add("one device", it.one_device);
  std::string text = aligned(rows, 1);
  text += fmt::format("bubble: devices are idle {:.1f} % of the time with the schedule {}\n", 100 * it.bubble,
                      schedule_name(report));
  if (it.plan.idle > 0)
    text += plural(static_cast<std::uint64_t>(it.plan.idle), "device is", "devices are") + " not used\n";
  if (it.scheduled > it.one_device && it.plan.devices > 1) text += "one device alone is faster\n";
  return text;
}

const char* cost_name(StageCost cost) {
  return cost == StageCost::overlapped ? "larger"
         : cost == StageCost::added    ? "sum"
                                       : "sum without transfers";
}

Json stages_json(const PlanReport& report) {
  Json stages = Json::array();
  const training::PipelinePrediction& it = report.prediction;
  for (std::size_t number = 0; number < it.plan.stages.size(); ++number) {
    const PipelineStage& stage = it.plan.stages[number];
    Json names = Json::array();
    for (const std::size_t layer : stage.layers) names.push_back(report.layers[layer]);
    std::size_t in_flight = 0, versions = 0;
    for (const auto& replica : it.trace.replicas) {
      if (replica.stage != number) continue;
      in_flight = std::max(in_flight, replica.most_in_flight);
      versions = std::max(versions, replica.most_versions);
    }
    stages.push_back({{"layers", std::move(names)},
                      {"replicas", stage.replicas},
                      {"computing_seconds", stage.computation},
                      {"synchronization_seconds", stage.synchronization},
                      {"seconds", stage.time},
                      {"received_bytes", stage.received},
                      {"transfer_seconds", stage.transfer},
                      {"activations_bytes", stage.activations},
                      {"parameters_bytes", stage.parameters},
                      {"memory_bytes", stage.memory},
                      {"micro_batches_in_flight", in_flight},
                      {"versions", versions}});
  }
  return stages;
}

Json timeline_json(const PlanReport& report) {
  Json list = Json::array();
  for (const auto& entry : report.prediction.trace.entries) {
    const training::StageTask& task = entry.work.task;
    if (task.kind == training::StageTask::Kind::update || task.number >= kTimedMicroBatches) continue;
    list.push_back({{"stage", entry.stage + 1},
                    {"replica", entry.replica + 1},
                    {"pass", task.kind == training::StageTask::Kind::forward ? "forward" : "backward"},
                    {"micro_batch", task.number},
                    {"begin_seconds", entry.begin},
                    {"end_seconds", entry.end}});
  }
  return list;
}

Json ratio(double before, double seconds) { return seconds > 0 ? Json(before / seconds) : Json(nullptr); }

}  // namespace

std::string plan_text(const PlanReport& report) {
  std::string text = head_text(report) + "\n" + stages_table(report) + "\n" + times_table(report);
  const std::string drawing = draw_pipeline(report.prediction.trace);
  return drawing.empty() ? text : text + "\n" + drawing;
}

std::string plan_json(const PlanReport& report) {
  const training::PipelinePrediction& it = report.prediction;
  Json bandwidths = Json::array(), measured;
  for (const training::DeviceLevel& level : report.request.levels)
    bandwidths.push_back(kBitsOfByte * level.bandwidth);
  if (!report.device.empty()) {
    measured = {{"device", report.device},
                {"samples", *report.samples},
                {"whole_seconds", report.whole},
                {"by_layers_seconds", report.by_layers}};
  }
  return training::to_line({{"name", report.name},
                            {"measured", std::move(measured)},
                            {"devices", it.plan.devices},
                            {"idle_devices", it.plan.idle},
                            {"bandwidth_bits_per_second", std::move(bandwidths)},
                            {"computing_and_synchronization", cost_name(report.request.cost)},
                            {"schedule", schedule_name(report)},
                            {"micro_batches", it.shape.micro_batches},
                            {"stages", stages_json(report)},
                            {"planned_seconds", it.planned},
                            {"scheduled_seconds", it.scheduled},
                            {"bubble", it.bubble},
                            {"one_device_seconds", it.one_device},
                            {"data_parallel_seconds", it.data_parallel},
                            {"planned_over_one_device", ratio(it.one_device, it.planned)},
                            {"planned_over_data_parallel", ratio(it.data_parallel, it.planned)},
                            {"scheduled_over_one_device", ratio(it.one_device, it.scheduled)},
                            {"scheduled_over_data_parallel", ratio(it.data_parallel, it.scheduled)},
                            {"timeline", timeline_json(report)}});
}

}  // namespace starling::cli

#include "lab/simulate/pipelined_peer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "training/learning/split.h"
#include "training/learning/stage_records.h"
#include "training/planner/partition.h"
#include "training/planner/profiling/operations.h"

namespace starling::lab {
namespace {

using training::Experiment;
using training::Recomputation;

constexpr double kFastLink = 1e15;           // bytes per second, the most that the planner accepts
constexpr std::uint64_t kBatchesShown = 12;  // without a flush
constexpr std::size_t kBatchesTimed = 64;

Result<training::PipelinePlan> divided(const training::PipelineProfile& profile,
                                       const SimulatedDevices& devices) {
  training::PlanRequest request{
      .levels = {{static_cast<int>(devices.speeds.size()), std::min(devices.bandwidth, kFastLink)}},
      .memory = devices.memory,
      .counts_current = true};
  request.replicas = devices.replicas;
  if (request.replicas.empty()) request.replicas.assign(devices.speeds.size(), 1);
  request.cuts = devices.cuts;
  request.schedule = {devices.schedule, static_cast<int>(devices.micro_batches)};
  auto plan = training::plan_pipeline(profile, request);
  if (plan || !devices.cuts_may_move) return plan;
  request.cuts.clear();
  return training::plan_pipeline(profile, request);
}

std::string layers_of(const training::PipelineProfile& profile, const training::PipelineStage& stage) {
  const std::string& first = profile.layers[stage.layers.front()].name;
  return stage.layers.size() == 1 ? first : first + " to " + profile.layers[stage.layers.back()].name;
}

// Seconds from the end of a batch to the end of the next one, far from the beginning of a stream.
double interval_between_batches(const PipelinedPeer& peer, training::StageOptions options) {
  const std::size_t before = 2 * peer.shape.all_replicas();
  const std::uint64_t round = training::shape_of(staged_options(peer.devices)).all_micro_batches();
  const std::uint64_t timed = (kBatchesTimed + round - 1) / round * round;
  const auto shape =
      training::shape_of(staged_options(peer.devices), (timed + 2 * before) / peer.shape.micro_batches + 1);
  const training::PipelineTrace trace = training::time_pipeline(shape, peer.times, options);
  std::vector<double> ends;  // of backward passes of the first stage
  for (const auto& entry : trace.entries)
    if (entry.stage == 0 && entry.work.task.kind == training::StageTask::Kind::backward)
      ends.push_back(entry.end);
  return (ends[before + timed] - ends[before]) / static_cast<double>(timed);
}

}  // namespace

SimulatedDevices simulated_devices(const Experiment& own) {
  const training::PipelineSettings& pipeline = own.pipeline;
  SimulatedDevices devices;
  devices.speeds = pipeline.speeds;
  if (devices.speeds.empty()) devices.speeds.assign(own.training.devices.size(), 1);
  devices.replicas = pipeline.stage_replicas;
  for (const int cut : pipeline.cuts) devices.cuts.push_back(static_cast<std::size_t>(cut));
  if (pipeline.bandwidth) devices.bandwidth = *pipeline.bandwidth / 8;
  if (pipeline.latency) devices.latency = to_seconds(*pipeline.latency);
  if (pipeline.memory) devices.memory = static_cast<double>(*pipeline.memory);
  devices.schedule = pipeline.schedule;
  devices.micro_batches = training::resolved_micro_batches(own, devices.speeds.size());
  devices.recomputation = own.training.recompute;
  devices.vertical_sync = own.pipeline.vertical_sync;
  return devices;
}

training::StagedOptions staged_options(const SimulatedDevices& devices) {
  training::StagedOptions options;
  options.schedule = devices.schedule;
  options.micro_batches = devices.micro_batches;
  options.replicas.assign(devices.replicas.begin(), devices.replicas.end());
  if (options.replicas.empty()) options.replicas.assign(devices.speeds.size(), 1);
  options.vertical_sync = devices.vertical_sync;
  return options;
}

namespace {

// Stage `k` of the peer, and the link to the one before.
void add_stage(PipelinedPeer& peer, const training::PipelineProfile& profile,
               const training::PipelineStage& stage, std::size_t k) {
  const SimulatedDevices& devices = peer.devices;
  const auto speeds = devices.speeds.begin() + static_cast<std::ptrdiff_t>(peer.shape.number_of(k, 0));
  const double slowest = *std::min_element(speeds, speeds + peer.shape.replicas[k]);
  training::StageTimes its{.forward = 0, .backward = 0};
  double parameters = 0;  // bytes
  for (const std::size_t layer : stage.layers) {
    its.forward += profile.layers[layer].forward / slowest;
    its.backward += profile.layers[layer].backward / slowest;
    parameters += profile.layers[layer].parameters;
  }
  its.share = devices.latency + parameters / devices.bandwidth;
  if (devices.recomputation == Recomputation::always) its.backward += its.forward;
  if (devices.recomputation == Recomputation::except_last) its.recomputation = its.forward;
  peer.times.stages.push_back(its);
  if (k > 0) {
    peer.devices.cuts.push_back(stage.layers.front());
    peer.times.links.push_back(
        {.latency = devices.latency, .bandwidth = devices.bandwidth, .bytes = stage.received});
  }
  const std::uint32_t replicas = peer.shape.replicas[k];
  for (std::uint32_t replica = 0; replica < replicas; ++replica) {
    const std::string which = replicas > 1 ? ", replica " + std::to_string(replica + 1) : "";
    peer.layers.push_back(layers_of(profile, stage) + which);
  }
}

}  // namespace

Result<PipelinedPeer> pipelined_peer(const models::Plan& network, const SimulatedDevices& devices,
                                     std::uint32_t samples, double step) {
  const bool flushes = training::pipeline_traits(devices.schedule).flushes;
  const double parts = flushes ? devices.micro_batches : 1;
  const training::PipelineProfile profile =
      training::profile_by_operations(network, samples / parts, step / parts);
  PipelinedPeer peer{.devices = devices,
                     .shape = training::shape_of(staged_options(devices), flushes ? 1 : kBatchesShown)};
  if (Status fits = training::check_shape(peer.shape); !fits) return fits.error();
  const auto plan = divided(profile, devices);
  if (!plan) return plan.error();
  peer.devices.cuts.clear();
  for (std::size_t k = 0; k < plan->stages.size(); ++k) add_stage(peer, profile, plan->stages[k], k);
  const training::StageOptions options{.stash = true, .vertical_sync = devices.vertical_sync};
  peer.trace = training::time_pipeline(peer.shape, peer.times, options);
  peer.step = flushes ? peer.trace.seconds : interval_between_batches(peer, options);
  return peer;
}

Duration virtual_step(const Experiment& own) {
  return own.training.pace.count() > 0 ? own.training.pace : std::chrono::milliseconds(20);
}

Result<std::optional<PipelinedPeer>> pipeline_of(const Experiment& own, const models::Plan& network) {
  if (!training::has_stages(own)) return std::optional<PipelinedPeer>();
  const auto settled = training::settle_split(own, network, nullptr);
  if (!settled) return settled.error();
  SimulatedDevices devices = simulated_devices(*settled);
  devices.cuts_may_move = own.pipeline.cuts.empty();
  auto peer = pipelined_peer(network, devices, own.training.batch_size, to_seconds(virtual_step(own)));
  if (!peer) return Error{"training.split: " + peer.error().message};
  return std::optional(std::move(*peer));
}

training::PipelineRecord record_of(const PipelinedPeer& pipeline) {
  training::PipelineRecord record;
  record.schedule = training::pipeline_traits(pipeline.shape.schedule).name;
  record.micro_batches = pipeline.shape.micro_batches;
  for (std::size_t k = 0; k < pipeline.layers.size(); ++k)
    record.stages.push_back({.layers = pipeline.layers[k], .speed = pipeline.devices.speeds[k]});
  training::PipelineTrace trace = pipeline.trace;
  trace.seconds = static_cast<double>(pipeline.batches()) * pipeline.step;
  training::add_trace(trace, pipeline.batches(), record);
  return record;
}

}  // namespace starling::lab

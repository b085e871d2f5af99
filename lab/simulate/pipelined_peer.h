// A simulated peer that consists of several devices, each of which has a stage of the network. With a flush
// its steps take as long as the pipeline needs for a batch in virtual time, and it learns from the whole
// batch: the gradient equals the undivided network's. Without a flush batches follow one another through the
// stages (lab/world/virtual_stream.h, stream_learner.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "models/spec.h"
#include "training/learning/stages/staged_options.h"
#include "training/planner/timing.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/pipeline_record.h"

namespace starling::lab {

struct SimulatedDevices {
  std::vector<double> speeds;     // of each device, where 1 is an undivided peer's
  std::vector<std::size_t> cuts;  // the first layer of each stage but the first
  std::vector<int> replicas{};    // devices of each stage, in the order of their speeds; empty: one
  bool cuts_may_move = false;     // if the stages do not fit into the memory
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second between two devices
  double latency = 0;                                          // seconds of a transfer
  std::optional<double> memory = std::nullopt;                 // bytes of each device
  training::PipelineSchedule schedule = training::PipelineSchedule::one_f_one_b;
  std::uint32_t micro_batches = 1;
  training::Recomputation recomputation = training::Recomputation::never;
  bool vertical_sync = false;
  friend bool operator==(const SimulatedDevices&, const SimulatedDevices&) = default;
};

struct PipelinedPeer {
  SimulatedDevices devices;
  training::PipelineShape shape;
  training::PipelineTimes times{};
  training::PipelineTrace trace{};    // of a batch, or without a flush of the first ones
  double step = 0;                    // seconds: of a batch, or without a flush from one batch to the next
  std::vector<std::string> layers{};  // of each device: "conv1 to pool1"

  // Whether batches follow one another without a flush.
  bool streams() const { return !training::pipeline_traits(shape.schedule).flushes; }
  std::uint64_t batches() const { return streams() ? shape.all_micro_batches() : shape.batches; }  // traced
};

// `step`: seconds of a batch of `samples` on a device of speed 1 with the whole network. Its layers share
// them by their operations, and a backward pass takes twice as long as a forward pass. All replicas of a
// stage take as long as the slowest. An Error if the schedule or the cuts are impossible, or there is too
// little memory.
Result<PipelinedPeer> pipelined_peer(const models::Plan& network, const SimulatedDevices& devices,
                                     std::uint32_t samples, double step);

// The devices that the settings of `own` (training::of_peer()) describe, with its cuts.
SimulatedDevices simulated_devices(const training::Experiment& own);

// Their schedule, replicas and micro-batches; without cuts.
training::StagedOptions staged_options(const SimulatedDevices& devices);

// The length of a step on a virtual machine without faults, of a peer with one device.
Duration virtual_step(const training::Experiment& own);

// The pipeline of a peer with the experiment `own` (training::of_peer()), whose stages equal a real peer's;
// nullopt if its devices do not divide the network. The Error names the setting.
Result<std::optional<PipelinedPeer>> pipeline_of(const training::Experiment& own,
                                                 const models::Plan& network);

// Without faults; the idle parts of a step, and without a flush those far from the beginning.
training::PipelineRecord record_of(const PipelinedPeer& pipeline);

}  // namespace starling::lab

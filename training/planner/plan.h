// A plan of a pipeline: which layers each stage has, on how many devices each stage is repeated, and what
// that takes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "training/planner/schedule.h"

namespace starling::training {

// How the time of a stage with several replicas follows from its computation and from the synchronization of
// its replicas.
enum class StageCost {
  overlapped,              // the longer of both; transfers of activations count
  added,                   // their sum; transfers count
  added_without_transfers  // their sum; transfers are free
};

// `count` groups (devices, at the innermost level) with `bandwidth` bytes per second between them.
struct DeviceLevel {
  int count = 1;
  double bandwidth = 1e9;
};

// How the stages will be run. What a plan calls a mini-batch is then a micro-batch of the schedule.
struct PlannedSchedule {
  PipelineSchedule schedule = PipelineSchedule::pipedream;
  // Of an update: with a flush the replicas of a stage share them, else each replica has so many.
  int micro_batches = 1;
};

struct PlanRequest {
  std::vector<DeviceLevel> levels;  // the innermost first: machines of a rack, racks
  StageCost cost = StageCost::overlapped;
  std::optional<double> memory = std::nullopt;  // bytes of each device
  // Whether the memory bound includes the mini-batch that a stage computes, in addition to those that wait
  // for their backward pass. PipeDream's does not.
  bool counts_current = false;
  bool may_idle = false;  // whether devices may be left out
  // For one level: the replicas of each stage. Empty: the planner chooses.
  std::vector<int> replicas = {};
  // With `replicas`: the cuts before the second and later stages (PipelineStage::begin). Empty: the planner
  // chooses.
  std::vector<std::size_t> cuts = {};
  // The same as PipeDream's planner: an update after each mini-batch, without a flush.
  PlannedSchedule schedule = {};
};

struct PipelineStage {
  std::size_t begin = 0;            // the number of the first set (cuts.h) that has one of its layers
  std::size_t end = 0;              // the number of the first set behind the stage
  std::vector<std::size_t> layers;  // ascending
  int replicas = 1;                 // on all levels together
  std::vector<int> replicas_by_level;
  double computation = 0;      // seconds that one replica computes for a mini-batch
  double synchronization = 0;  // seconds that the replicas average gradients, for each update
  double time = 0;             // seconds for each mini-batch, from both, with all replicas
  double received = 0;         // bytes of activations from the stage before, for a mini-batch
  double transfer = 0;         // seconds of transfers between it and the stage before, for each mini-batch
  double bandwidth = 0;        // bytes per second between it and the stage before
  double activations = 0;      // bytes of a mini-batch
  double parameters = 0;       // bytes
  int waiting = 0;    // mini-batches that wait for their backward pass while the stage computes another one
  double memory = 0;  // bytes of parameters and activations, including the current mini-batch's
};

struct PipelinePlan {
  std::vector<PipelineStage> stages;
  double seconds = 0;        // for each mini-batch: the slowest stage or transfer
  double one_device = 0;     // the same for one device with all layers
  double data_parallel = 0;  // the same for one stage on all devices, with the same way to cost it
  int devices = 0;           // that the plan uses
  int idle = 0;              // that it leaves out
};

}  // namespace starling::training

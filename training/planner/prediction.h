// What a pipeline that runs by a plan and a schedule is going to take: the plan's steady state, and the
// schedule in virtual time.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "training/planner/plan.h"
#include "training/planner/profile.h"
#include "training/planner/timing.h"

namespace starling::training {

// Of a whole mini-batch: all micro-batches of an update.
struct PipelinePrediction {
  PipelinePlan plan;         // its times are for one micro-batch
  PipelineShape shape;       // as in the plan; `batches` is the trace's
  PipelineTrace trace;       // from the beginning of a run
  double planned = 0;        // seconds, as the planner counts them: the slowest stage or transfer
  double scheduled = 0;      // seconds, by the schedule
  double bubble = 0;         // by the schedule: the part of the time in which devices are idle
  double one_device = 0;     // seconds of all layers on one device
  double data_parallel = 0;  // seconds of all layers on each device, as the planner counts them
};

// Plans, and runs the schedule of the request in virtual time. If the replicas of a stage cannot share its
// micro-batches equally, there are as many more as that needs (shape.micro_batches). With a flush, bubble and
// time are of one mini-batch, else of the interval between mini-batches far from the beginning.
//
// Each direction of each pair of replicas is a link of its own, whereas the planner lets all transfers of a
// device share its bandwidth, so the schedule may take less time than planned. The replicas of a stage
// average a gradient before each update. Where computation and synchronization overlap, only what is left of
// this after the last backward pass takes time, or without a flush after all passes of the update.
Result<PipelinePrediction> predict_pipeline(const PipelineProfile& profile, const PlanRequest& request);

}  // namespace starling::training

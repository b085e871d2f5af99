// What a peer, a summary and a report show of stages (training/runs/records/pipeline_record.h), from the
// settings of a peer and from a trace, which was measured or follows from the schedule.
#pragma once

#include <cstdint>

#include "models/spec.h"
#include "training/planner/timing.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/pipeline_record.h"

namespace starling::training {

// The stages of a peer, without times. REQUIRES: the experiment is settled (split.h) and has stages.
PipelineRecord describe_stages(const Experiment& experiment, const models::Plan& plan);

// Adds the times of the trace, in which there were so many batches, and at most kMostPasses of its tasks.
// REQUIRES: the record has as many stages as the trace has replicas of stages.
void add_trace(const PipelineTrace& trace, std::uint64_t steps, PipelineRecord& record);
inline constexpr std::size_t kMostPasses = 4096;

}  // namespace starling::training

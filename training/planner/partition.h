// The planner of pipelines: from a profile and a description of devices to the plan with the least time for
// each mini-batch. It is the dynamic program of PipeDream's planner, level by level: a stage of a level with
// several groups (racks) is planned within each group for all of the group's devices.
//
// With T the seconds of a stage's computation in one group, w the bytes of its parameters, m its replicas, n
// the devices of a group, a the bytes that cross a cut and B the bandwidth of the level:
//   synchronization   4 (m - 1) w / (m n B): each device of a group synchronizes its part over its own link
//   stage             the longer of T and synchronization, or their sum, divided by m
//   transfer          2 a / (m B), for both sides of the cut
//   plan              the largest of these
// With u updates for each mini-batch of a group, the stage waits for u times the synchronization: u is 1 in
// PipeDream's planner, 1 / M with M micro-batches for each update, and m / M where a flush follows, so that
// the m groups share the M.
//
// A device keeps the activations and parameters of ceil(groups behind the stage / m) mini-batches, and of one
// more with counts_current; they must fit into its memory. With a flush it keeps the parameters once, and the
// activations of at most M / m micro-batches (gpipe: of all these). As in PipeDream's planner, each level
// applies this bound for itself, with its own groups, so with several levels PipelineStage::memory may exceed
// it, and u is too low at the levels within.
//
// Among plans that are equal but for rounding (12 digits), those with the fewest stages of the level are
// preferred, then the latest last cut in the order of cuts.h, then the fewest replicas of the last stage; the
// stages before it follow the same rule. With may_idle, fewer groups are preferred.
#pragma once

#include "base/result.h"
#include "training/planner/cuts.h"
#include "training/planner/plan.h"
#include "training/planner/profile.h"

namespace starling::training {

Result<PipelinePlan> plan_pipeline(const PipelineProfile& profile, const PlanRequest& request);
// For several plans of one profile.
Result<PipelinePlan> plan_pipeline(const PipelineCuts& cuts, const PlanRequest& request);

}  // namespace starling::training

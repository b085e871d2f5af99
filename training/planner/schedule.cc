#include "training/planner/schedule.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace starling::training {
namespace {

using Kind = StageTask::Kind;

// `own`: the micro-batches of the replica in one flush. Backward passes come in the opposite order, so that
// the last micro-batch's activations are used at once.
void add_all_then_all(std::vector<StageTask>& tasks, const std::vector<std::uint64_t>& own) {
  for (const std::uint64_t i : own) tasks.push_back({Kind::forward, i});
  for (std::size_t k = own.size(); k-- > 0;) tasks.push_back({Kind::backward, own[k]});
}

void add_alternating(std::vector<StageTask>& tasks, const std::vector<std::uint64_t>& own,
                     std::uint64_t warm_up) {
  const std::size_t ahead = std::min<std::size_t>(warm_up, own.size());
  for (std::size_t k = 0; k < ahead; ++k) tasks.push_back({Kind::forward, own[k]});
  for (std::size_t k = 0; k < own.size(); ++k) {
    if (ahead + k < own.size()) tasks.push_back({Kind::forward, own[ahead + k]});
    tasks.push_back({Kind::backward, own[k]});
  }
}

// The micro-batches of [begin, end) that this replica computes.
std::vector<std::uint64_t> share_of(const PipelineShape& shape, std::size_t stage, std::uint32_t replica,
                                    std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> own;
  for (std::uint64_t i = begin; i < end; ++i)
    if (shape.replica_of(stage, i) == replica) own.push_back(i);
  return own;
}

// Adds an update after every `every` backward passes.
std::vector<StageTask> with_updates(const std::vector<StageTask>& passes, std::uint64_t every) {
  std::vector<StageTask> tasks;
  std::uint64_t backward = 0, updates = 0;
  for (const StageTask& task : passes) {
    tasks.push_back(task);
    if (task.kind == Kind::backward && ++backward % every == 0) tasks.push_back({Kind::update, updates++});
  }
  return tasks;
}

}  // namespace

Status check_shape(const PipelineShape& shape) {
  if (shape.replicas.empty()) return Error{"a pipeline needs at least one stage"};
  if (shape.micro_batches == 0) return Error{"a batch needs at least one micro-batch"};
  const PipelineTraits& rule = pipeline_traits(shape.schedule);
  if (!rule.splits && shape.micro_batches > 1) {
    return Error{"the schedule " + std::string(rule.name) +
                 " does not divide a batch: one micro-batch, not " + std::to_string(shape.micro_batches)};
  }
  for (const std::uint32_t replicas : shape.replicas) {
    if (replicas == 0) return Error{"every stage needs at least one replica"};
    // The number of micro-batches in all that the replicas of a stage divide among them for one update each.
    const std::uint64_t shared = rule.flushes ? shape.micro_batches : shape.all_micro_batches();
    const std::uint64_t round = std::uint64_t{replicas} * (rule.flushes ? 1 : shape.micro_batches);
    if (shared % round != 0) {
      return Error{std::to_string(shared) + " micro-batches cannot be divided equally among " +
                   std::to_string(replicas) + " replicas of a stage" +
                   (rule.flushes || shape.micro_batches == 1
                        ? ""
                        : ", each with " + std::to_string(shape.micro_batches) + " for an update")};
    }
  }
  return Done{};
}

std::uint64_t warm_up_passes(const PipelineShape& shape, std::size_t stage) {
  const auto& replicas = shape.replicas;
  const std::uint64_t from_here = std::accumulate(replicas.begin() + static_cast<std::ptrdiff_t>(stage),
                                                  replicas.end(), std::uint64_t{0});
  return (from_here - 1) / replicas[stage];
}

std::vector<StageTask> tasks_of(const PipelineShape& shape, std::size_t stage, std::uint32_t replica) {
  const PipelineTraits& rule = pipeline_traits(shape.schedule);
  const std::uint64_t warm_up = warm_up_passes(shape, stage), all = shape.all_micro_batches();
  std::vector<StageTask> passes;
  if (!rule.flushes) {
    add_alternating(passes, share_of(shape, stage, replica, 0, all), warm_up);
    return with_updates(passes, shape.micro_batches);
  }
  for (std::uint64_t begin = 0; begin < all; begin += shape.micro_batches) {
    const auto own = share_of(shape, stage, replica, begin, begin + shape.micro_batches);
    if (rule.alternates) {
      add_alternating(passes, own, warm_up);
    } else {
      add_all_then_all(passes, own);
    }
  }
  return with_updates(passes, shape.micro_batches / shape.replicas[stage]);
}

std::vector<StageTask> open_tasks(const PipelineShape& shape, std::size_t stage, std::uint32_t replica,
                                  std::uint64_t count) {
  const auto own = share_of(shape, stage, replica, 0, count);
  std::vector<StageTask> passes;
  add_alternating(passes, own, warm_up_passes(shape, stage));
  std::vector<StageTask> tasks = with_updates(passes, shape.micro_batches);
  if (own.size() % shape.micro_batches != 0)
    tasks.push_back({Kind::update, own.size() / shape.micro_batches});
  return tasks;
}

std::uint64_t most_in_flight(const std::vector<StageTask>& tasks) {
  std::uint64_t now = 0, most = 0;
  for (const StageTask& task : tasks) {
    if (task.kind == Kind::forward) most = std::max(most, ++now);
    if (task.kind == Kind::backward) --now;
  }
  return most;
}

}  // namespace starling::training

#include "training/planner/partition.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "base/text.h"
#include "training/planner/level.h"

namespace starling::training {
namespace {

constexpr int kMostGroups = 4096;  // of one level
constexpr std::size_t kMostLevels = 8;
constexpr double kMostDevices = 1e6;
constexpr double kLeastBandwidth = 1, kMostBandwidth = 1e15;  // bytes per second
constexpr double kMostWork = 4e10;  // combinations that the dynamic program tries: about half a minute

template <class T>
std::string joined_numbers(const std::vector<T>& numbers, const char* separator) {
  std::string text;
  for (const T number : numbers) text += (text.empty() ? "" : separator) + std::to_string(number);
  return text;
}

std::string whole_number(double value) {
  constexpr double kExact = 1e15;
  return value < kExact ? std::to_string(static_cast<std::uint64_t>(value)) : format_number(value);
}

Status check_levels(const PlanRequest& request) {
  if (request.levels.empty()) return Error{"a plan needs at least one device, and none is given."};
  if (request.levels.size() > kMostLevels) {
    return Error{"devices can be on at most " + std::to_string(kMostLevels) + " levels, and " +
                 std::to_string(request.levels.size()) + " are given."};
  }
  double devices = 1;
  for (std::size_t i = 0; i < request.levels.size(); ++i) {
    const auto& [count, bandwidth] = request.levels[i];
    const std::string level = "level " + std::to_string(i + 1);
    if (count < 1 || count > kMostGroups) {
      return Error{level + " has " + std::to_string(count) + " devices or groups of them, and needs 1 to " +
                   std::to_string(kMostGroups) + "."};
    }
    if (!(bandwidth >= kLeastBandwidth && bandwidth <= kMostBandwidth)) {
      return Error{level + " has a bandwidth of " + format_number(bandwidth) +
                   " bytes per second, and needs one from 1 to 1e+15."};
    }
    devices *= count;
  }
  if (devices > kMostDevices) {
    return Error{"a plan is for at most " + whole_number(kMostDevices) + " devices, and there are " +
                 whole_number(devices) + "."};
  }
  if (request.memory && !(*request.memory > 0))
    return Error{"the memory of a device is " + format_number(*request.memory) +
                 " bytes, and must be positive."};
  if (request.schedule.micro_batches < 1) return Error{"an update needs at least one micro-batch."};
  return Done{};
}

Status check_given_cuts(const PipelineCuts& cuts, const PlanRequest& request) {
  const auto& given = request.cuts;
  if (given.empty()) return Done{};
  if (given.size() + 1 != request.replicas.size()) {
    return Error{"the cuts are one less than the stages, but " + std::to_string(given.size()) + " cuts and " +
                 std::to_string(request.replicas.size()) + " stages are given."};
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 1 || given[i] >= cuts.size()) {
      return Error{"the profile has the cuts 1 to " + std::to_string(cuts.size() - 1) + ", but not " +
                   std::to_string(given[i]) + "."};
    }
    const auto& before = cuts.before[given[i] - 1];
    if (i > 0 &&
        !std::binary_search(before.begin(), before.end(), static_cast<std::uint32_t>(given[i - 1] - 1)))
      return Error{"the cut " + std::to_string(given[i]) + " does not lie behind " +
                   std::to_string(given[i - 1]) + "."};
  }
  return Done{};
}

Status check_given_replicas(const PipelineCuts& cuts, const PlanRequest& request) {
  const auto& replicas = request.replicas;
  if (replicas.empty())
    return request.cuts.empty() ? Status(Done{}) : Error{"cuts can be given only with the stages' replicas."};
  const std::string shape = joined_numbers(replicas, "-");
  if (request.levels.size() != 1)
    return Error{"the replicas " + shape + " can be given only for devices on one level."};
  const int count = request.levels[0].count;
  int left = count;
  for (const int stage : replicas) {
    if (stage < 1) return Error{"every stage of " + shape + " needs at least one replica."};
    if (stage > left) {
      const double needed = std::accumulate(replicas.begin(), replicas.end(), 0.0);
      return Error{"the stages " + shape + " need " + whole_number(needed) + " devices, and there are " +
                   std::to_string(count) + "."};
    }
    left -= stage;
  }
  const std::size_t longest = cuts.longest();
  if (replicas.size() > longest) {
    return Error{"the profile can be cut into at most " + std::to_string(longest) + " stages, but " +
                 std::to_string(replicas.size()) + " are requested."};
  }
  return check_given_cuts(cuts, request);
}

Status check_work(const PipelineCuts& cuts, const PlanRequest& request) {
  double pairs = 0;
  for (const auto& before : cuts.before) pairs += static_cast<double>(before.size());
  double work = 0;
  for (std::size_t level = 0; level < request.levels.size(); ++level) {
    const bool last = level + 1 == request.levels.size();
    const double groups = request.levels[level].count;
    work += pairs * (last ? 1 : static_cast<double>(cuts.size()) / 3) * groups * groups / 2 *
            (request.may_idle ? groups / 3 : 1);
  }
  if (work <= kMostWork) return Done{};
  return Error{"a profile with " + std::to_string(cuts.size()) +
               " cuts takes too long to plan for so many devices: join layers, or give fewer devices."};
}

class PipelinePlanner {
 public:
  PipelinePlanner(const PipelineCuts& cuts, const PlanRequest& request) : cuts_(cuts), request_(request) {}

  Result<PipelinePlan> plan() {
    const double seconds = solve(false);
    if (seconds == kImpossible) {
      return Error{"no plan fits into " + whole_number(*request_.memory) +
                   " bytes of memory for each device: the least that one needs here is " +
                   whole_number(std::ceil(solve(true))) + " bytes."};
    }
    PipelinePlan plan;
    plan.seconds = seconds;
    divide(request_.levels.size(), {0, cuts_.size()}, std::vector<int>(request_.levels.size(), 1), plan);
    complete(plan);
    return plan;
  }

 private:
  struct Best {
    double value;
    std::vector<LevelStage> stages;
  };

  LevelProblem problem(std::size_t level, int count) const {
    int devices = 1;
    for (std::size_t within = 0; within < level; ++within) devices *= request_.levels[within].count;
    return LevelProblem{.cuts = cuts_,
                        .count = count,
                        .bandwidth = request_.levels[level].bandwidth,
                        .devices = devices,
                        .cost = request_.cost,
                        .memory = least_memory_ ? std::nullopt : request_.memory,
                        .counts_current = request_.counts_current,
                        .least_memory = least_memory_,
                        .within = level > 0 ? &values_[level - 1] : nullptr,
                        .replicas = request_.replicas,
                        .cut_before = request_.cuts,
                        .schedule = request_.schedule};
  }

  // The best value for every `end`, and for one end also its stages.
  std::vector<double> best_values(std::size_t level, std::size_t begin, std::size_t end, Best* best) const {
    std::vector<double> values(cuts_.size(), kImpossible);
    const int most = request_.replicas.empty()
                         ? request_.levels[level].count
                         : std::accumulate(request_.replicas.begin(), request_.replicas.end(), 0);
    for (int count = request_.may_idle && request_.replicas.empty() ? 1 : most; count <= most; ++count) {
      const LevelProblem its_problem = problem(level, count);
      const LevelPlans plans(its_problem, begin);
      for (std::size_t i = begin; i < cuts_.size(); ++i) {
        if (!(plans.value(i + 1) < values[i])) continue;
        values[i] = plans.value(i + 1);
        if (best != nullptr && i + 1 == end) *best = Best{values[i], plans.stages(end)};
      }
    }
    return values;
  }

  // The value of the whole, after the values of all ranges at the levels within.
  double solve(bool least_memory) {
    least_memory_ = least_memory;
    values_.clear();
    const std::size_t sets = cuts_.size();
    for (std::size_t level = 0; level + 1 < request_.levels.size(); ++level) {
      std::vector<double> values;
      values.reserve(sets * sets);
      for (std::size_t begin = 0; begin < sets; ++begin) {
        const auto row = best_values(level, begin, 0, nullptr);
        values.insert(values.end(), row.begin(), row.end());
      }
      values_.push_back(std::move(values));
    }
    return best_values(request_.levels.size() - 1, 0, 0, nullptr).back();
  }

  // Appends the stages of a range that levels below `levels` divide. `replicas` has the replicas on the
  // levels above.
  void divide(std::size_t levels, CutRange range, std::vector<int> replicas, PipelinePlan& plan) {
    if (levels == 0) {
      PipelineStage stage;
      stage.begin = range.begin;
      stage.end = range.end;
      stage.replicas_by_level = std::move(replicas);
      plan.stages.push_back(std::move(stage));
      return;
    }
    Best best;
    best_values(levels - 1, range.begin, range.end, &best);
    int before = 0;
    for (const LevelStage& part : best.stages) {
      replicas[levels - 1] = part.replicas;
      const std::size_t first = plan.stages.size();
      divide(levels - 1, part.range, replicas, plan);
      if (before > 0) {
        PipelineStage& stage = plan.stages[first];
        stage.received = cuts_.crossing[stage.begin - 1];
        stage.bandwidth = request_.levels[levels - 1].bandwidth;
        stage.transfer = transfer_seconds(stage.received, std::min(before, part.replicas), stage.bandwidth);
      }
      before = part.replicas;
    }
  }

  double amount(const std::vector<double>& of_set, const PipelineStage& stage) const {
    return of_set[stage.end - 1] - (stage.begin == 0 ? 0 : of_set[stage.begin - 1]);
  }

  void complete(PipelinePlan& plan) const {
    for (auto stage = plan.stages.rbegin(); stage != plan.stages.rend(); ++stage) {
      const auto& all = cuts_.layers[stage->end - 1];
      const auto& earlier = stage->begin == 0 ? std::vector<std::size_t>() : cuts_.layers[stage->begin - 1];
      std::set_difference(all.begin(), all.end(), earlier.begin(), earlier.end(),
                          std::back_inserter(stage->layers));
      stage->computation = amount(cuts_.seconds, *stage);
      stage->activations = amount(cuts_.activations, *stage);
      stage->parameters = amount(cuts_.parameters, *stage);
      stage->time = stage->computation;
      stage->replicas = 1;
      for (std::size_t level = 0; level < request_.levels.size(); ++level) {
        const int replicas = stage->replicas_by_level[level];
        const double seconds = synchronization_seconds(stage->parameters, replicas,
                                                       request_.levels[level].bandwidth, stage->replicas);
        stage->synchronization += seconds;
        stage->time = stage_seconds(stage->time, seconds * updates_per_batch(request_.schedule, replicas),
                                    replicas, request_.cost);
        stage->replicas *= replicas;
      }
      stage->waiting = waiting_batches(plan.devices, stage->replicas);
      stage->memory = kept_bytes(request_.schedule, plan.devices, stage->replicas, true, stage->activations,
                                 stage->parameters);
      plan.devices += stage->replicas;
    }
    int devices = 1;
    plan.one_device = plan.data_parallel = cuts_.seconds.back();
    for (const auto& [count, bandwidth] : request_.levels) {
      const double seconds = synchronization_seconds(cuts_.parameters.back(), count, bandwidth, devices);
      plan.data_parallel = stage_seconds(
          plan.data_parallel, seconds * updates_per_batch(request_.schedule, count), count, request_.cost);
      devices *= count;
    }
    plan.idle = devices - plan.devices;
  }

  const PipelineCuts& cuts_;
  const PlanRequest& request_;
  bool least_memory_ = false;
  std::vector<std::vector<double>> values_;  // of all ranges, for every level but the outermost
};

}  // namespace

Result<PipelinePlan> plan_pipeline(const PipelineProfile& profile, const PlanRequest& request) {
  const auto cuts = find_cuts(profile);
  if (!cuts) return cuts.error();
  return plan_pipeline(*cuts, request);
}

Result<PipelinePlan> plan_pipeline(const PipelineCuts& cuts, const PlanRequest& request) {
  for (const Status& status :
       {check_levels(request), check_given_replicas(cuts, request), check_work(cuts, request)}) {
    if (!status) return status.error();
  }
  return PipelinePlanner(cuts, request).plan();
}

}  // namespace starling::training

#include "training/planner/level.h"

#include <algorithm>

#include "base/check.h"

namespace starling::training {
namespace {

// Values that differ by rounding only are equal.
constexpr double kEqual = 1e-12;

}  // namespace

double synchronization_seconds(double parameters, int replicas, double bandwidth, int links) {
  return 4 * (replicas - 1) * parameters / (replicas * bandwidth * links);
}

double updates_per_batch(const PlannedSchedule& schedule, int replicas) {
  const bool shared = pipeline_traits(schedule.schedule).flushes;
  return static_cast<double>(shared ? replicas : 1) / schedule.micro_batches;
}

double stage_seconds(double computation, double synchronization, int replicas, StageCost cost) {
  const double both =
      cost == StageCost::overlapped ? std::max(computation, synchronization) : computation + synchronization;
  return both / replicas;
}

double transfer_seconds(double bytes, int replicas, double bandwidth) {
  return 2 * bytes / (replicas * bandwidth);
}

int waiting_batches(int later, int replicas) { return (later + replicas - 1) / replicas; }

double kept_bytes(const PlannedSchedule& schedule, int later, int replicas, bool counts_current,
                  double activations, double parameters) {
  const PipelineTraits& rule = pipeline_traits(schedule.schedule);
  const int held = waiting_batches(later, replicas) + (counts_current ? 1 : 0);
  if (!rule.flushes) return held * (activations + parameters);
  const int own = (schedule.micro_batches + replicas - 1) / replicas;
  return (rule.alternates ? std::min(held, own) : own) * activations + parameters;
}

LevelPlans::LevelPlans(const LevelProblem& problem, std::size_t begin) : problem_(problem), begin_(begin) {
  const std::size_t sets = problem.cuts.size();
  open_.resize(sets * static_cast<std::size_t>(problem.count));
  closed_.resize(sets);
  if (!problem.replicas.empty()) {
    stage_of_.assign(static_cast<std::size_t>(problem.count) + 1, -1);
    int used = 0, stage = 0;
    for (const int replicas : problem.replicas)
      stage_of_[static_cast<std::size_t>(used += replicas)] = stage++;
  }
  for (std::size_t set = begin; set < sets; ++set) {
    if (!reachable(set)) continue;
    for (int used = 1; used <= problem.count; ++used) consider(set, used, used, -1);
    const auto& before = problem.cuts.before[set];
    for (auto k = before.rbegin(); k != before.rend() && *k >= begin; ++k) {
      if (!reachable(*k)) continue;
      for (int used = 2; used <= problem.count; ++used)
        for (int replicas = 1; replicas < used; ++replicas) consider(set, used, replicas, *k);
    }
  }
}

// Whether the set contains the one before `begin_` and more.
bool LevelPlans::reachable(std::size_t set) const {
  const auto& before = problem_.cuts.before[set];
  return begin_ == 0 ||
         std::binary_search(before.begin(), before.end(), static_cast<std::uint32_t>(begin_ - 1));
}

double LevelPlans::stage_value(CutRange range, int replicas, int used) const {
  const PipelineCuts& cuts = problem_.cuts;
  const auto amount = [&](const std::vector<double>& of_set) {
    return of_set[range.end - 1] - (range.begin == 0 ? 0 : of_set[range.begin - 1]);
  };
  const double parameters = amount(cuts.parameters);
  const double value = problem_.within != nullptr
                           ? (*problem_.within)[range.begin * cuts.size() + range.end - 1]
                       : problem_.least_memory ? 0
                                               : amount(cuts.seconds);
  if (problem_.memory || problem_.least_memory) {
    const double bytes = kept_bytes(problem_.schedule, problem_.count - used, replicas,
                                    problem_.counts_current, amount(cuts.activations), parameters);
    if (problem_.least_memory) return std::max(value, bytes);
    if (bytes > *problem_.memory) return kImpossible;
  }
  const double synchronization =
      synchronization_seconds(parameters, replicas, problem_.bandwidth, problem_.devices) *
      updates_per_batch(problem_.schedule, replicas);
  return stage_seconds(value, synchronization, replicas, problem_.cost);
}

// What it takes to send, or to receive, what crosses the cut behind a set.
double LevelPlans::sending(std::size_t set, int replicas) const {
  if (problem_.least_memory || problem_.cost == StageCost::added_without_transfers) return 0;
  return transfer_seconds(problem_.cuts.crossing[set], replicas, problem_.bandwidth);
}

bool LevelPlans::allowed(int used, int replicas, std::ptrdiff_t before) const {
  if (stage_of_.empty()) return true;
  const int stage = stage_of_[static_cast<std::size_t>(used)];
  if (stage < 0 || (stage == 0) != (before < 0)) return false;
  const auto index = static_cast<std::size_t>(stage);
  if (problem_.replicas[index] != replicas) return false;
  return before < 0 || problem_.cut_before.empty() ||
         problem_.cut_before[index - 1] == static_cast<std::size_t>(before) + 1;
}

// Choices that are equal even in this are considered in the order in which they are preferred.
bool LevelPlans::better(const Choice& choice, const Choice& best) {
  if (choice.value == kImpossible || best.value == kImpossible) return choice.value < best.value;
  const double rounding = kEqual * best.value;
  return choice.value < best.value - rounding ||
         (choice.value <= best.value + rounding && choice.stages < best.stages);
}

void LevelPlans::consider(std::size_t set, int used, int replicas, std::ptrdiff_t before) {
  if (!allowed(used, replicas, before)) return;
  Choice choice{.value = 0, .stages = 1, .replicas = replicas, .before = before};
  std::size_t first = begin_;
  if (before >= 0) {
    first = static_cast<std::size_t>(before) + 1;
    const Choice& earlier = open(first - 1, used - replicas);
    choice.value = std::max(earlier.value, sending(first - 1, replicas));
    choice.stages = earlier.stages + 1;
  }
  Choice& with_next = open(set, used);
  Choice* last = used == problem_.count ? &closed_[set] : nullptr;
  if (!better(choice, with_next) && (last == nullptr || !better(choice, *last))) return;
  choice.value = std::max(choice.value, stage_value({first, set + 1}, replicas, used));
  if (last != nullptr && better(choice, *last)) *last = choice;
  choice.value = std::max(choice.value, sending(set, replicas));
  if (better(choice, with_next)) with_next = choice;
}

std::vector<LevelStage> LevelPlans::stages(std::size_t end) const {
  std::vector<LevelStage> stages;
  int used = problem_.count;
  const Choice* choice = &closed_[end - 1];
  STARLING_CHECK(choice->value < kImpossible);
  while (choice->before >= 0) {
    const auto cut = static_cast<std::size_t>(choice->before);
    stages.push_back({{cut + 1, end}, choice->replicas});
    used -= choice->replicas;
    end = cut + 1;
    choice = &open(cut, used);
  }
  stages.push_back({{begin_, end}, choice->replicas});
  std::reverse(stages.begin(), stages.end());
  return stages;
}

}  // namespace starling::training

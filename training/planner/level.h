// The dynamic program of PipeDream's planner for one level: groups of devices that are connected with one
// bandwidth. A group is a device, or has been planned at the level within.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "training/planner/cuts.h"
#include "training/planner/plan.h"

namespace starling::training {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Seconds for which a stage with `parameters` bytes averages the gradients of its replicas, each of which
// sends and receives over `links` links.
double synchronization_seconds(double parameters, int replicas, double bandwidth, int links);
// Updates for each mini-batch that one of `replicas` groups computes.
double updates_per_batch(const PlannedSchedule& schedule, int replicas);
// Seconds for each mini-batch of a stage that takes `computation` seconds on one group, and synchronizes for
// so many.
double stage_seconds(double computation, double synchronization, int replicas, StageCost cost);
// Seconds for each mini-batch in which `replicas` groups send `bytes` forward and as many back, or receive.
double transfer_seconds(double bytes, int replicas, double bandwidth);
// The mini-batches that wait in a stage of `replicas` groups while it computes, if `later` groups follow it.
int waiting_batches(int later, int replicas);
// Bytes that a device of a stage keeps: activations of mini-batches, and their versions of the parameters.
double kept_bytes(const PlannedSchedule& schedule, int later, int replicas, bool counts_current,
                  double activations, double parameters);

// Sets begin .. end - 1 of the cuts: the layers of set end - 1 that are not in set begin - 1.
struct CutRange {
  std::size_t begin, end;
};

// A level of the problem. All groups are used.
struct LevelProblem {
  const PipelineCuts& cuts;
  int count;
  double bandwidth;  // of transfers between two groups
  int devices;       // of each group; each has its part in the synchronization of groups, over its own link
  StageCost cost;
  std::optional<double> memory;
  bool counts_current;
  // Whether to find the plan with the least memory of a device instead of the least time.
  bool least_memory = false;
  // The best value of the level within for every range, at begin * cuts.size() + end - 1; null: groups are
  // devices.
  const std::vector<double>* within = nullptr;
  // If not empty: the replicas of each stage, and its cuts unless they are empty.
  std::vector<int> replicas = {};
  std::vector<std::size_t> cut_before = {};
  PlannedSchedule schedule = {};
};

struct LevelStage {
  CutRange range;
  int replicas;
};

// The best plans for all ranges with the same begin.
class LevelPlans {
 public:
  LevelPlans(const LevelProblem& problem, std::size_t begin);

  // The time of the best plan for begin .. end - 1, or the memory of a device; kImpossible if there is none.
  double value(std::size_t end) const { return closed_[end - 1].value; }
  // REQUIRES: value(end) is possible.
  std::vector<LevelStage> stages(std::size_t end) const;

 private:
  // The best choice for the last stage among plans for some range and number of groups.
  struct Choice {
    double value = kImpossible;
    int stages = 0;
    int replicas = 0;            // of the last stage
    std::ptrdiff_t before = -1;  // the set behind which the last stage begins; -1: it is the only one
  };

  static bool better(const Choice& choice, const Choice& best);
  bool reachable(std::size_t set) const;
  double stage_value(CutRange range, int replicas, int used) const;
  double sending(std::size_t set, int replicas) const;
  bool allowed(int used, int replicas, std::ptrdiff_t before) const;
  void consider(std::size_t set, int used, int replicas, std::ptrdiff_t before);
  Choice& open(std::size_t set, int used) {
    return open_[set * static_cast<std::size_t>(problem_.count) + static_cast<std::size_t>(used) - 1];
  }
  const Choice& open(std::size_t set, int used) const {
    return const_cast<LevelPlans*>(this)->open(set, used);
  }

  const LevelProblem& problem_;
  std::size_t begin_;
  std::vector<int> stage_of_;   // with given replicas: the stage that ends with so many groups, or -1
  std::vector<Choice> open_;    // plans that another stage follows, so that sending to it counts
  std::vector<Choice> closed_;  // plans with all groups that no stage follows
};

}  // namespace starling::training

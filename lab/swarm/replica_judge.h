// Evaluates the replicas of a run: reads the files that the peers left, averages and compares the replicas,
// and evaluates them on the test set, several at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "models/spec.h"
#include "training/replica/evaluator.h"

namespace starling::lab {

using Score = training::Evaluator::Score;

struct Judgement {
  std::vector<std::optional<Score>> replicas;  // of each file; none if it cannot be read
  std::vector<float> mean;                     // of those that count; empty if none does
  std::optional<Score> mean_score;
  std::optional<double> consensus_distance;
};

struct ReplicaFile {
  std::string path;  // empty: no replica
  bool counts;       // in the mean and the consensus
};

// Holds all replicas in memory meanwhile. `servers`: the files of the parameter servers by number, if there
// are any; their model is evaluated instead of the mean if all of them can be read.
Judgement judge_replicas(const std::vector<ReplicaFile>& files, const std::vector<std::string>& servers,
                         const models::Plan& plan, const datasets::Dataset& test);

// The model composed of the servers' parts in these files, by number. An Error names the file that cannot be
// read.
Result<std::vector<float>> read_served_model(const std::vector<std::string>& paths, const models::Plan& plan);

// The consensus distance of the replicas in these files; nullopt if none can be read. Removes the files.
std::optional<double> consume_consensus(const std::vector<std::string>& paths, const models::Plan& plan);

}  // namespace starling::lab

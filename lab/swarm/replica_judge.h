// What the replicas of a run are worth: read from the files that the peers left, compared with each other,
// averaged, and evaluated on the test set, several at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "models/spec.h"
#include "training/replica/worker.h"

namespace starling::lab {

using Score = training::Evaluator::Score;

struct Judgement {
  std::vector<std::optional<Score>> replicas;  // of each file; none where it cannot be read
  std::vector<float> mean;                     // of those that count; empty where none does
  std::optional<Score> mean_score;
  std::optional<double> consensus_distance;
};

struct ReplicaFile {
  std::string path;  // empty: there is none
  bool counts;       // in the mean and the consensus
};

// Holds all replicas in memory while it works. `servers`: the files of parameter servers by their numbers,
// whose model is judged instead of the mean if all of them can be read; else empty.
Judgement judge_replicas(const std::vector<ReplicaFile>& files, const std::vector<std::string>& servers,
                         const models::Plan& plan, const datasets::Dataset& test);

// The model of which each of these files has a server's part, by the servers' numbers. An Error names the
// file.
Result<std::vector<float>> read_served_model(const std::vector<std::string>& paths, const models::Plan& plan);

// The consensus distance of the replicas in these files; nullopt where fewer than one can be read. Removes
// the files.
std::optional<double> consume_consensus(const std::vector<std::string>& paths, const models::Plan& plan);

}  // namespace starling::lab

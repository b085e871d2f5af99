// What the commands that show things print with --json: one object each, plain words with their unit last.
// The only code of this room that knows the JSON library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/shell/arguments.h"
#include "cli/commands/doctor.h"
#include "datasets/fetch.h"
#include "datasets/info.h"
#include "lab/measure/consensus_chart.h"
#include "models/spec.h"
#include "topologies/analysis.h"
#include "training/replica/memory.h"
#include "training/replica/predictor.h"
#include "training/replica/worker.h"

namespace starling::cli {

// {"models": [{"name": ..., "description": ...}, ...]}
std::string list_json(const std::string& title,
                      const std::vector<std::pair<std::string, std::string>>& entries);

// The layer of that index, or "input".
std::string layer_name(const models::Plan& plan, int index);
std::string model_json(const models::Plan& plan, const training::TrainingMemory& memory,
                       const training::PeerMemory& peer);

std::string fetched_json(const std::string& name, const std::string& folder, const datasets::Fetched& fetched);
std::string data_json(const datasets::Info& info);

// What a model costs to exchange along a topology.
struct Traffic {
  std::string model;
  std::size_t parameters = 0;
  double bytes_per_round = 0;          // that a peer sends in a lock-step round, in the mean
  std::size_t bytes_per_exchange = 0;  // of a pairwise exchange, each way
};
std::string topology_json(const std::string& name, const topologies::Analysis& analysis,
                          const std::optional<Traffic>& traffic);

// A line of `topology compare`: how far what was measured is off, in the rate, the logarithm of the factor.
struct ComparedRow {
  lab::Compared compared;
  std::optional<double> round_deviation_percent, consensus_deviation_percent;
};
std::string compare_json(std::uint32_t peers, bool measured, const std::vector<ComparedRow>& rows);

struct Evaluated {
  std::string checkpoint, model, data;
  std::size_t parameters = 0, samples = 0;
  training::Evaluator::Score score;
};
std::string evaluation_json(const Evaluated& evaluated);

// {"checkpoint": ..., "predictions": [ without its end, and one of its entries.
std::string prediction_json_head(const std::string& checkpoint, const std::string& model, const std::string& data);
std::string prediction_json(const training::Prediction& prediction);

std::string findings_json(const Findings& findings);

}  // namespace starling::cli

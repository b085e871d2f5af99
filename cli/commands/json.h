// The output of `list`, and the JSON that commands about models, data sets and topologies print with --json:
// one object each, with units at the end of the names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/shell/arguments.h"
#include "datasets/fetch.h"
#include "datasets/info.h"
#include "lab/plot/consensus_sheet.h"
#include "models/spec.h"
#include "topologies/spectra/analysis.h"
#include "training/learning/memory.h"

namespace starling::cli {

struct Described {
  std::string name, description;
  std::string more = {};  // a second line of the description, not in JSON
};

// Prints the entries, with --json as {"models": [{"name": ..., "description": ...}, ...]} for the title
// "models". Returns kExitDone.
int print_list(const Arguments& arguments, const std::string& title, const std::vector<Described>& entries);

// `starling GROUP list`, whose entries `run` prints.
Command list_command(const std::string& group, const std::string& summary, int (*run)(const Arguments&));

// The name of the layer with that index, or "input".
std::string layer_name(const models::Plan& plan, int index);
// The operations of a forward pass for a sample, and of training a token, forward and backward; the latter
// only for networks that read text.
double flops_of(const models::Plan& plan);
std::optional<double> flops_per_token(const models::Plan& plan);
std::string model_json(const models::Plan& plan, const training::TrainingMemory& memory,
                       const training::PeerMemory& peer);

std::string fetched_json(const std::string& name, const std::string& folder,
                         const datasets::Fetched& fetched);
std::string data_json(const datasets::Info& info);

// The cost of exchanging a model along a topology.
struct ModelTraffic {
  std::string model;
  std::size_t parameters = 0;
  double bytes_per_round = 0;          // mean of what a peer sends in a lock-step round
  std::size_t bytes_per_exchange = 0;  // of a pairwise exchange, each way
};
std::string topology_json(const std::string& name, const topologies::Analysis& analysis,
                          const std::optional<ModelTraffic>& traffic);

// A row of `topology compare`. The deviations of the measurement from the prediction compare rates, the
// logarithms of the factors.
struct ComparedRow {
  lab::Compared compared;
  std::optional<double> round_deviation_percent, consensus_deviation_percent;
};
std::string compare_json(std::uint32_t peers, bool measured, const std::vector<ComparedRow>& rows);

}  // namespace starling::cli

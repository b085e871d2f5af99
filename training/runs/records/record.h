// The results of a run: the summary that `swarm` and `simulate` print and write, the time series, and the
// folder of both. Numbers that are absent or not finite are null in JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "training/runs/records/peer_figures.h"
#include "training/runs/records/pipeline_record.h"
#include "training/runs/records/staleness.h"

namespace starling::training {

struct ExchangeTotals {
  std::uint64_t completed = 0, aborted = 0, rejected = 0, half_applied_chunks = 0;
  std::map<std::string, std::uint64_t> refused_chunks{};  // what others sent, by reason: "not_finite"
  ExchangeTotals& operator+=(const ExchangeTotals& other);
};

// The counts as reports and summaries have them, in this order.
template <class Visitor, class Counts>
void visit_counts(Visitor& visit, Counts& counts) {
  visit("completed", counts.completed);
  visit("aborted", counts.aborted);
  visit("rejected", counts.rejected);
  visit("half_applied_chunks", counts.half_applied_chunks);
  visit("refused_chunks", counts.refused_chunks);
}

// A peer at the end of a run. Without `accuracy` it left no parameters.
struct PeerRecord : PeerFigures, DeviceSharing {
  PeerRecord() { device = "cpu"; }

  std::string name;
  std::uint64_t exchanges = 0;  // completed ones that it began or answered
  double slow = 1;
  std::string state{};                    // finished, stopped (by the user), left, crashed, running
  std::optional<std::string> own_data{};  // the name of the data of its own, on which it trained
  bool serves = false;                    // a parameter server: it makes no steps, and is not evaluated
};

// What a run was made from beside its settings. Runs that differ in it are not alike, although their settings
// name the same files.
struct MadeFrom {
  std::string program, processor;               // its version; the newest instruction set
  std::map<std::string, std::string> contents;  // hashes of what settings name: "data.source", "model.init"
  friend bool operator==(const MadeFrom&, const MadeFrom&) = default;
};

// "starling 0.3.0 on avx2"; empty: unknown.
std::string maker_of(const MadeFrom& made);

// What was run.
struct RunDescription {
  std::string name, mode;  // mode: "swarm" or "simulate"
  std::uint64_t seed = 0;
  std::string model;
  std::uint64_t parameters = 0;
  std::string data;
  std::string data_description{};  // JSON (training/learning/data_facts.h); empty: unknown
  std::uint32_t peers = 0;
  std::string topology;
  std::optional<double> spectral_gap;
  std::string rule, payload;
  MadeFrom made_from{};
};

struct Summary : RunDescription {
  bool interrupted = false;  // the user ended the run early
  double epochs = 0;         // passes of the swarm over the data, so far
  std::optional<double> epochs_asked{};
  std::optional<double> start_seconds{};  // from the beginning until peers train; unset: unknown
  double seconds = 0, wall_seconds = 0;
  std::optional<double> wall_training_seconds{};  // simulate: from the first step's end to the last one's
  std::uint64_t samples = 0;
  double samples_per_second = 0;
  // Of a text: tokens in these samples; exp(loss), loss / ln 2, and the latter over the characters of a token
  // in the test part, if the tokens have a text.
  std::optional<std::uint64_t> tokens{};
  std::optional<double> perplexity{}, bits_per_token{}, bits_per_character{};
  std::optional<double> accuracy, loss, accuracy_min, accuracy_max, consensus_distance;
  std::optional<double> consensus_distance_before_settling;
  std::optional<double> seconds_to_target;
  ExchangeTotals exchanges;
  std::uint64_t bytes_sent = 0;
  Staleness staleness{};                  // of completed exchanges
  std::optional<std::string> trace_hash;  // of simulate only
  std::vector<PeerRecord> per_peer;
};

// Sets what a text's summary has beside its samples and loss. `context`: tokens of a sample; 0: it is no
// text. `characters`: of a token, the mean.
void add_text_figures(Summary& summary, std::uint64_t context, std::optional<double> characters);

// One JSON object (docs/RESULTS.md) on one line, without a newline.
std::string to_json(const Summary& summary);
inline constexpr std::size_t kLargestSummary = 64 << 20;  // bytes of summary.json: 100,000 peers
// Reads the object. An Error if the text is not one, or a field has another type.
Result<Summary> parse_summary(const std::string& text);

// Views of replicas.
using Replicas = std::vector<std::span<const float>>;
Replicas views_of(const std::vector<std::vector<float>>& replicas);

// sqrt(mean over peers of |x_i - mean|^2) / |mean|; also writes the mean. All replicas have the same length;
// sums are in double. 0 if all replicas are equal, infinite if unequal ones have the mean 0. REQUIRES: at
// least one.
double consensus(const Replicas& replicas, std::vector<float>& mean);

// A run's folder. create() makes it with its parents. If it already holds results (a summary.json or
// metrics.jsonl), that is an Error, unless `force`, which removes them and what was made of them.
class RunFolder {
 public:
  static Result<RunFolder> create(const std::string& path, bool force);
  // An existing folder, to resume in; its files stay.
  static Result<RunFolder> resume(const std::string& path);
  // Whether a folder holds results of a run, complete or not.
  static bool holds_results(const std::string& path);
  // Removes what is written at a run's end.
  void remove_end() const;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  // An Error if a file that the run writes at its end would replace an input (datasets/inputs.h), so that it
  // is reported before the run. To be called when the inputs are read.
  Status check_inputs() const;
  // Writes a file as write_atomically() does, unless it has this text already.
  Status write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// metrics.jsonl: one line per sample of one peer (or of the mean model, peer "mean").
struct MetricsLine : PeerFigures {  // bytes_sent of the mean model: by all peers
  double seconds = 0;
  std::string peer{};
  std::uint64_t exchanges = 0;  // completed ones that it began or answered
  std::optional<double> consensus_distance{};
};
std::string to_json(const MetricsLine& line);

}  // namespace starling::training

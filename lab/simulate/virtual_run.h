// What every experiment in virtual time has, independent of its driver: data and network, the peers' workers,
// evaluations on the way, and the output files. A driver makes one, takes the workers from it, reports the
// swarm's progress to it, and hands over the last replicas.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "lab/simulate/divided_peer.h"
#include "lab/simulate/simulate.h"
#include "lab/simulate/virtual_worker.h"
#include "lab/thread_pool.h"
#include "models/spec.h"
#include "training/learning/evaluator.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/records/record.h"

namespace starling::lab {

struct LearningRate {
  double base = 0;
  training::RateSchedule schedule;
  std::uint64_t epoch_samples = 0;
};

class VirtualRun {
 public:
  using Workers = Result<std::vector<std::unique_ptr<VirtualWorker>>>;

  // Loads the data and makes the network and the back end. All arguments outlive the run.
  static Result<std::unique_ptr<VirtualRun>> make(const training::Experiment& experiment,
                                                  const SimulateOptions& options,
                                                  const training::RunFolder& folder);

  ~VirtualRun();

  const training::Experiment& experiment() const { return experiment_; }
  const datasets::DataPair& data() const { return data_; }
  const models::Plan& plan() const { return plan_; }
  const kernels::Backend& backend() const { return *backend_; }
  const LearningRate& rate() const { return rate_; }
  std::uint64_t epoch_samples() const { return data_.train.size(); }
  ThreadPool& pool() { return pool_; }
  // The length of a peer's step without faults.
  Duration step_of(std::uint32_t peer) const { return devices_.steps.at(peer); }
  const std::vector<Duration>& steps() const { return devices_.steps; }  // of all peers
  const training::MadeFrom& made_from() const { return started_.made_from; }
  // How the devices of a peer share its training; null if it has one.
  const DividedPeer* divided(std::uint32_t peer) const { return devices_.divided.at(peer).get(); }

  // Writes experiment.toml and pipelines.jsonl, opens metrics.jsonl and keeps its first `metrics_bytes`, and
  // starts to make the workers of all peers in the pool.
  Status begin(std::uint64_t metrics_bytes = 0);
  // Returns the workers of a new instance of a peer. REQUIRES: begin() has been called.
  Workers workers(std::uint32_t peer);

  // After every step of the swarm: shows progress every hundredth of an epoch. `goal`: the samples at the
  // run's end; 0: unknown.
  void stepped(Instant now, std::uint64_t samples, std::uint64_t goal);
  // Whether the next evaluation is due; true once for each. Evaluations are as frequent as the experiment
  // says, and rarer in a large swarm. `samples`: consumed by the swarm.
  bool evaluation_is_due(std::uint64_t samples);
  // A peer's line of the time series, written with the next evaluation.
  void add_line(const training::MetricsLine& line) { lines_ += training::to_json(line) + "\n"; }
  struct Evaluation {
    training::Replicas replicas{};  // of the live peers; valid during evaluate()
    std::vector<float> model{};     // evaluated instead of their mean, unless it is empty
    training::MetricsLine line{};   // of the swarm: its seconds, and the sums over all peers
    Duration trained{0};            // since the first step began
  };
  // Writes the lines of all evaluations so far, and returns the size of metrics.jsonl.
  Result<std::uint64_t> settle_metrics();
  // The line of the latest evaluation whose score is known; null before the first.
  const training::MetricsLine* latest() const { return latest_ ? &*latest_ : nullptr; }
  bool target_reached() const { return seconds_to_target_.has_value(); }

  // Evaluates the model off the clock, on the first 1,000 test images, and on all of them if the accuracy on
  // those is near the target. True if the model is the first to reach the target. REQUIRES: there is a
  // replica.
  bool evaluate(Evaluation evaluation);

  // Evaluates the last replicas (of the peers in `summary` that finished, in their order; or one that all
  // share), completes the summary, and writes the files. The summary already has per_peer, exchanges,
  // bytes_sent, samples, seconds, spectral_gap and interrupted. `trace`: the hash of what happened; the
  // replicas' hash is added. `model`: the run's, if it is not the replicas' mean; else empty. An Error if
  // there is no replica, or a file cannot be written.
  Result<training::Summary> finish(training::Summary summary, const training::Replicas& replicas,
                                   const std::vector<float>& model, std::uint64_t trace);

 private:
  VirtualRun(const training::Experiment& experiment, const SimulateOptions& options,
             const training::RunFolder& folder, datasets::DataPair data, models::Plan plan,
             std::unique_ptr<kernels::Backend> backend, const training::RateSchedule& schedule);

  Status divide_peers();
  Status open_metrics(std::uint64_t kept_bytes);
  void write_waiting();
  Error metrics_failed() const;
  void describe(training::Summary& summary) const;  // all but results
  // Of one peer.
  const kernels::Backend& backend_of(const training::Experiment& its) const;
  const datasets::Dataset& train_of(const training::Experiment& its) const;
  Workers make_workers(std::uint32_t peer) const;
  // Precision, what is recomputed, and the peer's own data.
  using Kind = std::tuple<std::string, training::Recomputation, std::optional<std::string>>;
  static Kind kind_of(const training::Experiment& its);
  // The score of one replica on the first `limit` test samples.
  training::Evaluator::Score score_of(const std::vector<float>& parameters, std::size_t limit = SIZE_MAX);
  // The score of each on all test samples, in their order. They are computed in the pool.
  std::vector<training::Evaluator::Score> scores_of(const training::Replicas& replicas);

  const training::Experiment& experiment_;
  const SimulateOptions& options_;
  const training::RunFolder& folder_;
  struct Start {
    std::chrono::steady_clock::time_point at{};
    training::MadeFrom made_from{};
  } started_;
  datasets::DataPair data_;
  models::Plan plan_;
  std::unique_ptr<kernels::Backend> backend_;
  std::map<std::string, std::shared_ptr<const datasets::Dataset>> own_data_;  // by path; null: of all peers
  std::map<std::string, std::unique_ptr<kernels::Backend>> others_;  // by precision: of peers with their own
  LearningRate rate_;
  struct Devices {
    std::vector<Duration> steps;                              // of each peer
    std::vector<std::shared_ptr<const DividedPeer>> divided;  // by peer; null with one device
    std::string lines;  // for each kind of pipeline; empty: no peer has one
  } devices_;
  std::uint64_t evaluation_samples_;  // between two evaluations; 0: none
  std::uint64_t evaluations_ = 0;
  std::optional<std::chrono::steady_clock::time_point> first_step_, last_step_;  // in real time
  std::uint64_t shown_ = 0;                                                      // hundredths of an epoch
  std::optional<double> seconds_to_target_;
  std::ofstream metrics_;
  std::string lines_;  // of peers, for the next evaluation
  // Without a target, an evaluation runs in the background, and its lines wait for the score.
  struct Waiting {
    std::string lines;
    training::MetricsLine mean;
    std::future<training::Evaluator::Score> score;
  };
  std::optional<Waiting> waiting_;
  std::optional<training::MetricsLine> latest_;
  // Shared by the peers of a kind; null if each has its own.
  std::map<Kind, std::shared_ptr<Engines>> engines_;
  std::unique_ptr<training::Evaluator> evaluator_;  // null before the first score_of()
  ThreadPool pool_;                                 // declared after what its tasks use
  std::vector<std::future<Workers>> made_;
};

// When the peers that begin together have copied the first peer's parameters, by the protocol of all peers,
// and what they have sent until then. For rules without gossip.
struct FirstCopies {
  Instant done{};
  std::uint64_t bytes = 0;
};
Result<FirstCopies> first_copies(const VirtualRun& run);

// ---- a driver ----

// As simulate(), for an experiment whose rule is all-reduce (all_reduce.cc). A crash ends it with an Error
// that names the peer and the time, and so does a loss that is not finite. REQUIRES: training::check_rule()
// accepts the experiment.
Result<training::Summary> simulate_all_reduce(const training::Experiment& experiment,
                                              const SimulateOptions& options,
                                              const training::RunFolder& folder);

}  // namespace starling::lab

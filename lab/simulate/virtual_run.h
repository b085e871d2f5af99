// What every experiment in virtual time has, whoever drives it: data and network, the peers' workers, looks
// at the swarm on the way, and the files it leaves. A driver makes one, asks it for the workers, tells it how
// far the swarm has come, and hands it the last replicas.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "lab/simulate/judge.h"
#include "lab/simulate/simulate.h"
#include "lab/thread_pool.h"
#include "models/spec.h"
#include "training/experiment/experiment.h"
#include "training/records/record.h"
#include "training/experiment/schedule.h"
#include "training/replica/worker.h"

namespace starling::lab {

// The run's, for all its peers.
struct LearningRate {
  double base = 0;
  training::Schedule schedule;
  std::uint64_t epoch_samples = 0;
};

// How long a step takes on a virtual machine that nothing slows down.
Duration virtual_step(const training::Experiment& experiment);

class VirtualRun {
 public:
  using Workers = Result<std::vector<std::unique_ptr<training::Worker>>>;

  // Loads the data and makes what depends on nothing else. All arguments outlive the run.
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

  // Writes experiment.toml, opens metrics.jsonl, of which so many bytes stay, and has the workers of all peers made by
  // the pool's threads.
  Status begin(std::uint64_t metrics_bytes = 0);
  // Those of a new instance of a peer. REQUIRES: begin() has been called.
  Workers workers(std::uint32_t peer);

  // After every step of the swarm: shows progress now and then. `goal`: the samples at the run's end, 0: not known.
  void stepped(Instant now, std::uint64_t samples, std::uint64_t goal);
  // Whether another look is due: as often as the experiment says, in a large swarm more seldom. A look asked for
  // is counted. `samples`: consumed by the swarm.
  bool look_is_due(std::uint64_t samples);
  // Of a peer at that look, before it: a line of the time series.
  void tell(const training::MetricsLine& line) { told_ += training::to_json(line) + "\n"; }
  struct Look {
    training::Replicas replicas;  // of the live peers, as long as the look lasts
    std::vector<float> model;     // judged instead of their mean, unless it is empty
    training::MetricsLine line;   // of the swarm: its seconds, and the sums over all peers
    Duration trained{0};          // since the first step began
  };
  // Writes the lines of all looks so far; so many bytes are in metrics.jsonl then.
  Result<std::uint64_t> settle_metrics();
  bool target_reached() const { return seconds_to_target_.has_value(); }

  // The look itself, off the clock, and its line in the time series. The model is judged on the first 1,000
  // test images; on all of them where those come near the target. True if it has reached that, for the first
  // time. REQUIRES: there is a replica.
  bool look(Look look);

  // Judges the last replicas (of the peers in `summary` that finished, in their order; or a single one, which
  // is that of all of them), completes the summary, and writes the files. Expected in the summary: per_peer,
  // exchanges, bytes_sent, samples, seconds, spectral_gap. `trace`: the hash of what happened, which that of
  // the replicas is put on top of. `model`: the run's, if it is not the replicas' mean; else empty. An Error
  // where there is no replica, or a file cannot be written.
  Result<training::Summary> finish(training::Summary summary, const training::Replicas& replicas,
                                   const std::vector<float>& model, std::uint64_t trace);

 private:
  VirtualRun(const training::Experiment& experiment, const SimulateOptions& options,
             const training::RunFolder& folder, datasets::DataPair data, models::Plan plan,
             std::unique_ptr<kernels::Backend> backend, const training::Schedule& schedule);

  void write_waiting();
  Error metrics_failed() const;
  const kernels::Backend& backend_of(const training::Experiment& its) const;  // its: a peer's
  Workers make_workers(std::uint32_t peer) const;

  const training::Experiment& experiment_;
  const SimulateOptions& options_;
  const training::RunFolder& folder_;
  std::chrono::steady_clock::time_point started_;
  datasets::DataPair data_;
  models::Plan plan_;
  std::unique_ptr<kernels::Backend> backend_;
  std::map<std::string, std::unique_ptr<kernels::Backend>> others_;  // of peers' own precisions, by name
  LearningRate rate_;
  std::uint64_t look_samples_;  // between two looks; 0: none
  std::uint64_t looks_ = 0;
  std::optional<std::chrono::steady_clock::time_point> first_step_, last_step_;  // on the clock on the wall
  std::uint64_t shown_ = 0;  // hundredths of an epoch
  std::optional<double> seconds_to_target_;
  std::ofstream metrics_;
  std::string told_;  // lines of peers, of the look to come
  // A look without a target to reach is judged beside what comes next, and its lines wait for it.
  struct Waiting {
    std::string lines;
    training::MetricsLine mean;
    std::future<training::Evaluator::Score> score;
  };
  std::optional<Waiting> waiting_;
  // What the peers of a kind compute with; null where each has its own.
  using Kind = std::pair<std::string, bool>;  // precision, and whether activations are computed again
  std::map<Kind, std::shared_ptr<training::Engines>> engines_;
  ThreadPool pool_;  // behind what its tasks use
  std::vector<std::future<Workers>> made_;
  Judge judge_;
};

}  // namespace starling::lab

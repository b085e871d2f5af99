#include "lab/simulate/virtual_run.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/ids.h"
#include "training/records/checkpoint.h"
#include "training/replica/recipe.h"

namespace starling::lab {
namespace {

using training::Experiment;

// Of the test set, at a look; and how near to the target these must come for all of it to be looked at.
constexpr std::size_t kFirstImages = 1000;
constexpr double kOnePoint = 0.01;

unsigned threads_of(const SimulateOptions& options) {
  return options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

// A look costs as much as there are peers, so in a large swarm it waits until everyone could have made a step since,
// of a thousand peers ten. 0: there are no looks.
std::uint64_t samples_between_looks(const Experiment& experiment, std::uint64_t epoch_samples) {
  const std::uint64_t looks = training::resolved_looks(experiment);
  if (looks == 0) return 0;
  const std::uint64_t steps_between = std::max<std::uint64_t>(1, experiment.peers / 100);
  return std::max<std::uint64_t>(
      std::max<std::uint64_t>(1, epoch_samples / looks),
      steps_between * experiment.peers * experiment.workers * experiment.batch_size);
}

}  // namespace

Duration virtual_step(const Experiment& experiment) {
  return experiment.pace.count() > 0 ? experiment.pace : std::chrono::milliseconds(20);
}

Result<std::unique_ptr<VirtualRun>> VirtualRun::make(const Experiment& experiment,
                                                     const SimulateOptions& options,
                                                     const training::RunFolder& folder) {
  const auto started = std::chrono::steady_clock::now();
  auto data = datasets::load(experiment.data, options.data_root);
  if (!data) return data.error();
  auto plan = training::make_plan(experiment, data->train);
  if (!plan) return plan.error();
  auto backend = training::make_host_backend(experiment);
  if (!backend) return backend.error();
  const auto schedule = training::make_schedule(experiment);
  if (!schedule) return schedule.error();
  std::unique_ptr<VirtualRun> run(new VirtualRun(experiment, options, folder, std::move(*data),
                                                 std::move(*plan), std::move(*backend), *schedule));
  run->started_ = started;
  return run;
}

VirtualRun::VirtualRun(const Experiment& experiment, const SimulateOptions& options,
                       const training::RunFolder& folder, datasets::DataPair data, models::Plan plan,
                       std::unique_ptr<kernels::Backend> backend, const training::Schedule& schedule)
    : experiment_(experiment),
      options_(options),
      folder_(folder),
      data_(std::move(data)),
      plan_(std::move(plan)),
      backend_(std::move(backend)),
      rate_{training::resolved_learning_rate(experiment), schedule, data_.train.size()},
      look_samples_(samples_between_looks(experiment, data_.train.size())),
      pool_(threads_of(options)),
      judge_(plan_, *backend_, data_.test, pool_) {}

Status VirtualRun::begin(std::uint64_t metrics_bytes) {
  // Workers take long to make (each shuffles the data for its share), so they are made ahead, by all threads.
  for (const training::OwnSettings& own : experiment_.own) {
    for (const std::uint32_t peer : own.peers.among(experiment_.peers)) {
      const Experiment its = training::of_peer(experiment_, peer);
      if (its.precision == experiment_.precision || others_.contains(its.precision)) continue;
      auto backend = training::make_host_backend(its);
      if (!backend) return backend.error();
      others_.emplace(its.precision, std::move(*backend));
    }
  }
  for (std::uint32_t peer = 0; peer < experiment_.peers; ++peer) {
    const Experiment its = training::of_peer(experiment_, peer);
    const auto [kind, fresh] = engines_.try_emplace({its.precision, its.recompute});
    if (fresh) kind->second = training::make_shared_engines(its, plan_, backend_of(its), data_.train);
  }
  for (std::uint32_t peer = 0; peer < experiment_.peers; ++peer)
    made_.push_back(pool_.submit([this, peer] { return make_workers(peer); }));
  if (auto written = folder_.write("experiment.toml", training::to_toml(experiment_)); !written)
    return written.error();
  const std::string metrics = folder_.file("metrics.jsonl");
  if (metrics_bytes > 0) {
    std::error_code error;
    const auto size = std::filesystem::file_size(metrics, error);
    if (error || size < metrics_bytes) return Error{metrics + " is shorter than when the checkpoint was written"};
    std::filesystem::resize_file(metrics, metrics_bytes, error);
    if (error) return Error{"cannot shorten " + metrics + ": " + error.message()};
  }
  metrics_.open(metrics, metrics_bytes > 0 ? std::ios::app : std::ios::trunc);
  return Done{};
}

const kernels::Backend& VirtualRun::backend_of(const Experiment& its) const {
  const auto other = others_.find(its.precision);
  return other == others_.end() ? *backend_ : *other->second;
}

VirtualRun::Workers VirtualRun::make_workers(std::uint32_t peer) const {
  const Experiment its = training::of_peer(experiment_, peer);
  return training::make_workers(its, plan_, backend_of(its), data_.train, peer, experiment_.peers, 0,
                                engines_.at({its.precision, its.recompute}));
}

VirtualRun::Workers VirtualRun::workers(std::uint32_t peer) {
  if (made_.at(peer).valid()) return made_[peer].get();
  return make_workers(peer);  // another instance of it
}

void VirtualRun::stepped(Instant now, std::uint64_t samples, std::uint64_t goal) {
  last_step_ = std::chrono::steady_clock::now();
  if (!first_step_) first_step_ = last_step_;
  const std::uint64_t shown = samples * 100 / epoch_samples();
  if (!options_.progress || shown == shown_) return;
  shown_ = shown;
  options_.progress(to_seconds(now.since_start), goal > 0 ? static_cast<double>(samples) / static_cast<double>(goal) : 0);
}

bool VirtualRun::look_is_due(std::uint64_t samples) {
  if (look_samples_ == 0) return false;
  const std::uint64_t due = samples / look_samples_;
  if (due <= looks_) return false;
  looks_ = due;
  return true;
}

bool VirtualRun::look(Look look) {
  write_waiting();
  std::vector<float> mean;
  bool reached = false;
  training::MetricsLine& line = look.line;
  line.peer = "mean";
  line.consensus_distance = training::consensus(look.replicas, mean);
  if (!look.model.empty()) mean = std::move(look.model);
  waiting_ = Waiting{std::exchange(told_, {}), line, {}};
  if (!experiment_.target_accuracy || seconds_to_target_) {
    waiting_->score = pool_.submit([this, mean = std::move(mean)] { return judge_.score(mean, kFirstImages); });
    return false;
  }
  const double target = *experiment_.target_accuracy;
  auto score = judge_.score(mean, kFirstImages);
  if (score.accuracy >= target - kOnePoint) {
    score = judge_.score(mean);
    reached = score.accuracy >= target;
  }
  if (reached) seconds_to_target_ = to_seconds(look.trained);
  waiting_->mean.accuracy = score.accuracy;
  waiting_->mean.loss = score.loss;
  return reached;
}

void VirtualRun::write_waiting() {
  if (!waiting_) return;
  if (waiting_->score.valid()) {
    const auto score = waiting_->score.get();
    waiting_->mean.accuracy = score.accuracy;
    waiting_->mean.loss = score.loss;
  }
  metrics_ << waiting_->lines << training::to_json(waiting_->mean) << '\n';
  waiting_.reset();
}

Error VirtualRun::metrics_failed() const {
  return Error{"cannot write " + folder_.file("metrics.jsonl") + ": the disk may be full"};
}

Result<std::uint64_t> VirtualRun::settle_metrics() {
  write_waiting();
  metrics_.flush();
  const auto at = metrics_.tellp();
  if (!metrics_ || at < 0) return metrics_failed();
  return static_cast<std::uint64_t>(at);
}

VirtualRun::~VirtualRun() {
  write_waiting();
}

Result<training::Summary> VirtualRun::finish(training::Summary summary,
                                             const training::Replicas& replicas,
                                             const std::vector<float>& model, std::uint64_t trace) {
  write_waiting();
  if (replicas.empty()) return Error{"no peer finished the run, so there is no model to judge"};
  std::vector<float> mean;
  summary.consensus_distance = training::consensus(replicas, mean);
  if (!model.empty()) mean = model;
  const auto scores = judge_.scores(replicas);
  const auto score = judge_.score(mean);
  summary.accuracy = score.accuracy;
  summary.loss = score.loss;
  std::size_t finished = 0;
  for (training::PeerRecord& record : summary.per_peer) {
    if (record.state != "finished" || record.serves) continue;
    const auto& own = scores.at(replicas.size() == 1 ? 0 : finished++);
    record.accuracy = own.accuracy;
    summary.accuracy_min = std::min(summary.accuracy_min.value_or(1), own.accuracy);
    summary.accuracy_max = std::max(summary.accuracy_max.value_or(0), own.accuracy);
  }

  summary.name = experiment_.name;
  summary.mode = "simulate";
  summary.seed = experiment_.seed;
  summary.model = experiment_.model;
  summary.parameters = plan_.layout.parameter_count();
  summary.data = data_.name;
  summary.peers = experiment_.peers;
  summary.topology = experiment_.topology;
  summary.rule = experiment_.rule;
  summary.payload = experiment_.payload;
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(summary.samples) / summary.seconds : 0;
  summary.seconds_to_target = seconds_to_target_;
  for (const auto& replica : replicas) trace = hash64(std::as_bytes(replica), trace);
  if (!model.empty()) trace = hash64(std::as_bytes(std::span(model)), trace);
  summary.trace_hash = to_string(PeerId{trace});

  std::map<std::string, std::string> metadata =
      training::model_metadata({experiment_.model, experiment_.layers});
  metadata.insert({{"data", data_.name}, {"seed", std::to_string(experiment_.seed)}});
  if (auto written =
          training::write_safetensors(folder_.file("model.safetensors"), plan_.layout, mean, metadata);
      !written) {
    return written.error();
  }
  metrics_.flush();
  if (!metrics_) return metrics_failed();
  summary.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  if (first_step_) summary.wall_training_seconds = std::chrono::duration<double>(*last_step_ - *first_step_).count();
  if (auto written = folder_.write("summary.json", training::to_json(summary) + "\n"); !written)
    return written.error();
  return summary;
}

}  // namespace starling::lab

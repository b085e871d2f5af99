#include "lab/simulate/virtual_run.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/hash.h"
#include "base/ids.h"
#include "lab/made_from.h"
#include "topologies/graph_file.h"
#include "training/learning/data_facts.h"
#include "training/learning/recipe.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/settings/quantities.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/checkpoint.h"

namespace starling::lab {
namespace {

using training::Evaluator;
using training::Experiment;

// The cost of an evaluation grows with the number of peers, so in a large swarm each peer can make a step
// between two evaluations, of a thousand peers ten. 0: no evaluations.
std::uint64_t samples_between_evaluations(const Experiment& experiment, std::uint64_t epoch_samples) {
  const std::uint64_t per_epoch = training::resolved_looks(experiment);
  if (per_epoch == 0) return 0;
  const std::uint64_t steps_between = std::max<std::uint64_t>(1, experiment.peers / 100);
  return std::max<std::uint64_t>(
      std::max<std::uint64_t>(1, epoch_samples / per_epoch),
      steps_between * experiment.peers * experiment.training.workers * experiment.training.batch_size);
}

// The experiment of a peer, for its arithmetic: devices that hold one replica together compute as one does.
Experiment as_computed(const Experiment& experiment, std::uint32_t peer) {
  Experiment its = training::of_peer(experiment, peer);
  its.training.devices.clear();
  return its;
}

}  // namespace

Evaluator::Score VirtualRun::score_of(const std::vector<float>& parameters, std::size_t limit) {
  if (!evaluator_) evaluator_ = std::make_unique<Evaluator>(plan_, *backend_, data_.test);
  return evaluator_->evaluate(parameters.data(), limit);
}

std::vector<Evaluator::Score> VirtualRun::scores_of(const training::Replicas& replicas) {
  // With many replicas, a task evaluates several, so that each sample is read once for all of them.
  const std::size_t together = std::max<std::size_t>(1, replicas.size() / 64);
  std::vector<std::future<std::vector<Evaluator::Score>>> pending;
  for (std::size_t first = 0; first < replicas.size(); first += together) {
    const std::size_t count = std::min(together, replicas.size() - first);
    pending.push_back(pool_.submit([this, some = std::span(replicas).subspan(first, count)] {
      std::vector<const float*> parameters;
      for (const auto& replica : some) parameters.push_back(replica.data());
      return Evaluator(plan_, *backend_, data_.test).evaluate(parameters);
    }));
  }
  std::vector<Evaluator::Score> scores;
  scores.reserve(replicas.size());
  for (auto& p : pending) {
    for (const auto& score : p.get()) scores.push_back(score);
  }
  return scores;
}

// Sets the length of each peer's step. Peers with the same devices share a DividedPeer.
Status VirtualRun::divide_peers() {
  struct Alike {
    Experiment own;
    std::shared_ptr<const DividedPeer> divided;
    std::vector<std::string> peers;
  };
  std::vector<Alike> kinds;
  for (std::uint32_t peer = 0; peer < experiment_.peers; ++peer) {
    const Experiment own = training::of_peer(experiment_, peer);
    devices_.steps.push_back(virtual_step(own));
    devices_.divided.emplace_back();
    if (own.training.devices.size() < 2) continue;
    auto known = std::ranges::find_if(kinds, [&](const Alike& kind) {
      return kind.own.training == own.training && kind.own.pipeline == own.pipeline;
    });
    if (known == kinds.end()) {
      auto divided = divided_peer(own, plan_);
      if (!divided) return divided.error();
      kinds.push_back({own, std::make_shared<const DividedPeer>(std::move(**divided)), {}});
      known = kinds.end() - 1;
    }
    known->peers.push_back(training::peer_name(experiment_, peer));
    devices_.divided.back() = known->divided;
    // Each device with a replica has steps of its own.
    if (!known->divided->replicas)
      devices_.steps.back() = std::max(Duration{1}, from_seconds(known->divided->step));
  }
  for (const Alike& kind : kinds) {
    if (kind.divided->pipeline) {
      training::PipelineRecord record = record_of(*kind.divided->pipeline);
      record.peers = kind.peers;
      devices_.lines += training::to_json(record) + '\n';
    }
    const std::string peers =
        kind.peers.size() == experiment_.peers ? "all peers" : training::joined(kind.peers, ", ");
    if (options_.decided) options_.decided("devices of " + peers + ": " + kind.divided->text);
  }
  return Done{};
}

Result<std::unique_ptr<VirtualRun>> VirtualRun::make(const Experiment& experiment,
                                                     const SimulateOptions& options,
                                                     const training::RunFolder& folder) {
  const auto started = std::chrono::steady_clock::now();
  auto data = training::load_data(experiment, options.data_root);
  if (!data) return data.error();
  datasets::keep_fingerprint(*data);
  if (Status kept = folder.check_inputs(); !kept) return kept.error();
  auto plan = training::make_plan(experiment, *data);
  if (!plan) return plan.error();
  auto backend = training::make_host_backend(experiment);
  if (!backend) return backend.error();
  const auto schedule = training::make_schedule(experiment, data->train.size(), data->train.context);
  if (!schedule) return schedule.error();
  auto made_from = lab::made_from(experiment, *data);
  if (!made_from) return made_from.error();
  std::unique_ptr<VirtualRun> run(new VirtualRun(experiment, options, folder, std::move(*data),
                                                 std::move(*plan), std::move(*backend), *schedule));
  run->started_ = {started, std::move(*made_from)};
  if (Status planned = run->divide_peers(); !planned) return planned.error();
  return run;
}

VirtualRun::VirtualRun(const Experiment& experiment, const SimulateOptions& options,
                       const training::RunFolder& folder, datasets::DataPair data, models::Plan plan,
                       std::unique_ptr<kernels::Backend> backend, const training::RateSchedule& schedule)
    : experiment_(experiment),
      options_(options),
      folder_(folder),
      data_(std::move(data)),
      plan_(std::move(plan)),
      backend_(std::move(backend)),
      rate_{training::resolved_learning_rate(experiment), schedule, data_.train.size()},
      evaluation_samples_(samples_between_evaluations(experiment, data_.train.size())),
      pool_(options.threads) {}

Status VirtualRun::begin(std::uint64_t metrics_bytes) {
  for (const training::OwnSettings& own : experiment_.own) {
    for (const std::uint32_t peer : own.peers.among(experiment_.peers)) {
      const Experiment its = training::of_peer(experiment_, peer);
      if (const auto& path = its.data.own_data; path && !own_data_.contains(*path)) {
        if (Status added = training::add_own_data(its, options_.data_root, data_); !added) return added;
        own_data_[*path] = std::exchange(data_.own, nullptr);
      }
      if (its.training.precision == experiment_.training.precision ||
          others_.contains(its.training.precision))
        continue;
      auto backend = training::make_host_backend(its);
      if (!backend) return backend.error();
      others_.emplace(its.training.precision, std::move(*backend));
    }
  }
  add_own_contents(experiment_, own_data_, started_.made_from.contents);
  // Each worker shuffles its share of the data, which takes long, so all threads make them.
  for (std::uint32_t peer = 0; peer < experiment_.peers; ++peer) {
    const Experiment its = as_computed(experiment_, peer);
    const auto [kind, fresh] = engines_.try_emplace(kind_of(its));
    if (fresh) kind->second = make_shared_engines(its, plan_, backend_of(its), train_of(its));
  }
  for (std::uint32_t peer = 0; peer < experiment_.peers; ++peer)
    made_.push_back(pool_.submit([this, peer] { return make_workers(peer); }));
  if (auto written =
          folder_.write("experiment.toml",
                        training::to_toml(experiment_, by_names(experiment_, started_.made_from.contents)));
      !written)
    return written.error();
  if (!devices_.lines.empty()) {
    if (Status written = folder_.write("pipelines.jsonl", devices_.lines); !written) return written.error();
  }
  return open_metrics(metrics_bytes);
}

Status VirtualRun::open_metrics(std::uint64_t kept_bytes) {
  const std::string metrics = folder_.file("metrics.jsonl");
  if (kept_bytes > 0) {
    std::error_code error;
    const auto size = std::filesystem::file_size(metrics, error);
    if (error || size < kept_bytes)
      return Error{metrics + " is shorter than when the checkpoint was written"};
    std::filesystem::resize_file(metrics, kept_bytes, error);
    if (error) return Error{"cannot shorten " + metrics + ": " + error.message()};
  }
  metrics_.open(metrics, kept_bytes > 0 ? std::ios::app : std::ios::trunc);
  return Done{};
}

const kernels::Backend& VirtualRun::backend_of(const Experiment& its) const {
  const auto other = others_.find(its.training.precision);
  return other == others_.end() ? *backend_ : *other->second;
}

const datasets::Dataset& VirtualRun::train_of(const Experiment& its) const {
  const auto own = own_data_.find(its.data.own_data.value_or(""));
  return own == own_data_.end() || own->second == nullptr ? data_.trained() : *own->second;
}

VirtualRun::Kind VirtualRun::kind_of(const Experiment& its) {
  return {its.training.precision, its.training.recompute, its.data.own_data};
}

VirtualRun::Workers VirtualRun::make_workers(std::uint32_t peer) const {
  const Experiment its = as_computed(experiment_, peer);
  const datasets::Dataset& train = train_of(its);
  const auto& engines = engines_.at(kind_of(its));
  const bool replicas = divided(peer) != nullptr && divided(peer)->replicas;
  const std::size_t devices = replicas ? divided(peer)->replicas->steps.size() : 1;
  std::vector<std::unique_ptr<VirtualWorker>> workers;
  for (std::uint32_t device = 0; device < devices; ++device) {
    auto recipes = training::worker_recipes(its, train, peer, experiment_.peers, device);
    if (!recipes) return recipes.error();
    for (training::WorkerRecipe& recipe : *recipes) {
      workers.push_back(
          std::make_unique<VirtualWorker>(plan_, backend_of(its), train, std::move(recipe), engines));
    }
  }
  return workers;
}

VirtualRun::Workers VirtualRun::workers(std::uint32_t peer) {
  if (made_.at(peer).valid()) return made_[peer].get();
  return make_workers(peer);  // for a later instance
}

void VirtualRun::stepped(Instant now, std::uint64_t samples, std::uint64_t goal) {
  last_step_ = std::chrono::steady_clock::now();
  if (!first_step_) first_step_ = last_step_;
  const std::uint64_t shown = samples * 100 / epoch_samples();
  if (!options_.progress || shown == shown_) return;
  shown_ = shown;
  options_.progress(to_seconds(now.since_start),
                    goal > 0 ? static_cast<double>(samples) / static_cast<double>(goal) : 0);
}

bool VirtualRun::evaluation_is_due(std::uint64_t samples) {
  if (evaluation_samples_ == 0) return false;
  const std::uint64_t due = samples / evaluation_samples_;
  if (due <= evaluations_) return false;
  evaluations_ = due;
  return true;
}

bool VirtualRun::evaluate(Evaluation evaluation) {
  write_waiting();
  std::vector<float> mean;
  bool reached = false;
  training::MetricsLine& line = evaluation.line;
  line.peer = "mean";
  line.consensus_distance = training::consensus(evaluation.replicas, mean);
  if (!evaluation.model.empty()) mean = std::move(evaluation.model);
  waiting_ = Waiting{std::exchange(lines_, {}), line, {}};
  if (!training::has_target(experiment_.end) || seconds_to_target_) {
    waiting_->score = pool_.submit(
        [this, mean = std::move(mean)] { return score_of(mean, training::samples_of_look(data_.test)); });
    return false;
  }
  auto score = score_of(mean, training::samples_of_look(data_.test));
  // Near the target all samples count.
  if (training::is_near_target(experiment_.end, score.accuracy, score.loss)) {
    score = score_of(mean);
    reached = training::reaches_target(experiment_.end, score.accuracy, score.loss);
  }
  if (reached) seconds_to_target_ = to_seconds(evaluation.trained);
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
  latest_ = waiting_->mean;
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

VirtualRun::~VirtualRun() { write_waiting(); }

void VirtualRun::describe(training::Summary& summary) const {
  summary.name = experiment_.name;
  summary.mode = "simulate";
  summary.seed = experiment_.seed;
  summary.model = experiment_.model.name;
  summary.parameters = plan_.layout.parameter_count();
  summary.data = data_.name;
  summary.data_description = training::short_description_json(data_);
  summary.peers = experiment_.peers;
  summary.topology = topologies::shown_name(experiment_.gossip.topology);
  summary.made_from = made_from();
  summary.rule = traits(experiment_.gossip.rule).name;
  summary.payload = traits(experiment_.gossip.payload).name;
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(summary.samples) / summary.seconds : 0;
  summary.seconds_to_target = seconds_to_target_;
  summary.epochs = static_cast<double>(summary.samples) / static_cast<double>(epoch_samples());
  summary.epochs_asked = experiment_.end.epochs;
  for (std::uint32_t i = 0; i < experiment_.peers; ++i)
    if (const auto own = training::of_peer(experiment_, i).data.own_data)
      summary.per_peer.at(i).own_data = datasets::data_name(*own);
}

Result<training::Summary> VirtualRun::finish(training::Summary summary, const training::Replicas& replicas,
                                             const std::vector<float>& model, std::uint64_t trace) {
  write_waiting();
  if (replicas.empty()) return Error{"no peer finished the run, so there is no model to evaluate"};
  describe(summary);
  std::vector<float> mean;
  summary.consensus_distance = training::consensus(replicas, mean);
  if (!model.empty()) mean = model;
  const auto scores = scores_of(replicas);
  const auto score = score_of(mean);
  summary.accuracy = score.accuracy;
  summary.loss = score.loss;
  training::add_text_figures(summary, data_.train.context, data_.characters_per_token());
  std::size_t finished = 0;
  for (training::PeerRecord& record : summary.per_peer) {
    if (record.state != "finished" || record.serves) continue;
    const auto& own = scores.at(replicas.size() == 1 ? 0 : finished++);
    record.accuracy = own.accuracy;
    summary.accuracy_min = std::min(summary.accuracy_min.value_or(1), own.accuracy);
    summary.accuracy_max = std::max(summary.accuracy_max.value_or(0), own.accuracy);
  }
  for (training::PeerRecord& record : summary.per_peer) {
    if (summary.interrupted && record.state == "finished") record.state = "stopped";
  }
  for (const auto& replica : replicas) trace = hash64(std::as_bytes(replica), trace);
  if (!model.empty()) trace = hash64(std::as_bytes(std::span(model)), trace);
  summary.trace_hash = to_string(PeerId{trace});

  std::map<std::string, std::string> metadata =
      training::model_metadata({experiment_.model.name, experiment_.model.layers});
  metadata.merge(training::data_facts(data_));
  metadata.insert({"seed", std::to_string(experiment_.seed)});
  if (auto written =
          training::write_safetensors(folder_.file("model.safetensors"), plan_.layout, mean, metadata);
      !written) {
    return written.error();
  }
  metrics_.flush();
  if (!metrics_) return metrics_failed();
  summary.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_.at).count();
  if (first_step_)
    summary.wall_training_seconds = std::chrono::duration<double>(*last_step_ - *first_step_).count();
  if (auto written = folder_.write("summary.json", training::to_json(summary) + "\n"); !written)
    return written.error();
  return summary;
}

}  // namespace starling::lab

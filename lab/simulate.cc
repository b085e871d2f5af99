#include "lab/simulate.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "datasets/dataset.h"
#include "gossip/rules.h"
#include "kernels/backend.h"
#include "lab/process_faults.h"
#include "lab/thread_pool.h"
#include "lab/world.h"
#include "topologies/analysis.h"
#include "training/checkpoint.h"
#include "training/exchange/make.h"
#include "training/recipe.h"
#include "training/schedule.h"
#include "training/worker.h"

namespace starling::lab {
namespace {

// Whether somebody still has parameters: who has none yet copies them from those, or waits for ever.
bool has_parameters_left(const World& world) {
  for (std::uint32_t i = 0; i < world.machines(); ++i) {
    const auto machine = world.machine(i);
    if (machine.state == MachineState::running && machine.has_parameters) return true;
  }
  return false;
}

// The run's, for all its peers.
struct LearningRate {
  double base;
  training::Schedule schedule;
  std::uint64_t epoch_samples;
};

// Real mathematics: gradients on the snapshot of a step's start, computed in the pool while virtual time goes
// on.
class TrainingLearner : public Learner {
 public:
  TrainingLearner(std::vector<std::unique_ptr<training::Worker>> workers, std::size_t arena_floats,
                  const LearningRate& rate, ThreadPool& pool)
      : rate_(rate), pool_(pool) {
    for (auto& worker : workers) places_.push_back({std::move(worker), std::vector<float>(arena_floats), {}});
  }
  ~TrainingLearner() override {
    for (auto& place : places_) {
      if (place.loss.valid()) place.loss.wait();
    }
  }

  void begin_step(std::uint32_t worker, const models::Arena& arena) override {
    Place& place = places_.at(worker);
    arena.read(0, place.snapshot);
    place.loss = pool_.submit([&place] { return place.worker->compute(place.snapshot.data()); });
  }

  void swarm_has_consumed(std::uint64_t samples) override { swarm_samples_ = samples; }

  std::uint64_t end_step(std::uint32_t worker, models::Arena& arena) override {
    Place& place = places_.at(worker);
    const double loss = place.loss.get();
    smoothed_loss_ = steps_++ == 0 ? loss : 0.95 * smoothed_loss_ + 0.05 * loss;
    const double factor = training::step_rate_factor(rate_.schedule, swarm_samples_,
                                                     place.worker->batch_size(), rate_.epoch_samples);
    learning_rate_ = rate_.base * factor;
    place.worker->apply(arena, factor);
    return place.worker->batch_size();
  }

  void discard_step(std::uint32_t worker) override { places_.at(worker).loss.wait(); }
  void renew() override {
    for (auto& place : places_) {
      if (place.loss.valid()) place.loss.wait();
      place.worker->renew();
    }
  }

  double loss() const override { return smoothed_loss_; }
  std::optional<double> learning_rate() const override { return learning_rate_; }

 private:
  struct Place {
    std::unique_ptr<training::Worker> worker;
    std::vector<float> snapshot;
    std::future<double> loss;
  };
  const LearningRate& rate_;
  ThreadPool& pool_;
  std::vector<Place> places_;
  std::uint64_t swarm_samples_ = 0;
  std::optional<double> learning_rate_;
  double smoothed_loss_ = 0;
  std::uint64_t steps_ = 0;
};

// The experiment's machines, and what befalls them.
void make_machines(const training::Experiment& experiment, WorldOptions& options) {
  const Duration step = experiment.pace.count() > 0 ? experiment.pace : std::chrono::milliseconds(20);
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    MachineOptions machine;
    machine.name = "p" + std::to_string(i);
    machine.workers = experiment.workers;
    machine.step = step;
    options.machines.push_back(std::move(machine));
  }
  std::vector<std::size_t> slownesses(experiment.peers);  // of each peer, so far
  for (const auto& fault : experiment.faults) {
    const Instant from{fault.from};
    const Instant to = fault.to ? Instant{*fault.to} : kNever;
    const auto for_each_peer = [&](const auto& befall) {
      for (std::uint32_t i = 0; i < experiment.peers; ++i)
        if (fault.concerns(i)) befall(i);
    };
    switch (fault.kind) {
      case training::Fault::Kind::slow:
        for_each_peer([&](std::uint32_t peer) {
          options.incidents.emplace_back(
              Slow{peer, fault.factor, from, to,
                   training::chance_of_slowness(experiment.seed, peer, slownesses[peer]++)});
        });
        break;
      case training::Fault::Kind::pause:
        for_each_peer([&](std::uint32_t peer) { options.incidents.emplace_back(Pause{peer, from, to}); });
        break;
      case training::Fault::Kind::crash:
        options.incidents.emplace_back(Crash{fault.peer, from});
        break;
      case training::Fault::Kind::leave:
        options.incidents.emplace_back(Leave{fault.peer, from});
        break;
      case training::Fault::Kind::join:
        options.machines.at(fault.peer).start = from;
        break;
      case training::Fault::Kind::poison:
        options.incidents.emplace_back(Poison{fault.peer, from, to, 1, poison_named(fault.poison).value()});
        break;
      case training::Fault::Kind::link:
        for_each_peer([&](std::uint32_t peer) {
          options.incidents.emplace_back(
              PoorLinks{peer, from, to, {fault.link.latency, fault.link.bandwidth, fault.link.drop}});
        });
        break;
    }
  }
}

const char* state_name(MachineState state) {
  switch (state) {
    case MachineState::finished:
      return "finished";
    case MachineState::left:
      return "left";
    case MachineState::crashed:
    case MachineState::failed:
      return "crashed";
    case MachineState::waiting:
    case MachineState::running:
      return "running";
  }
  return "running";
}

std::vector<float> copy_of(const models::Arena& arena) {
  std::vector<float> copy(arena.size());
  arena.read(0, copy);
  return copy;
}

// Accuracy of several replicas at once, one evaluator per pool thread's task.
class Judge {
 public:
  Judge(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& test,
        ThreadPool& pool)
      : plan_(plan), backend_(backend), test_(test), pool_(pool) {}

  training::Evaluator::Score score(const std::vector<float>& parameters, std::size_t limit = SIZE_MAX) {
    if (!evaluator_) evaluator_ = std::make_unique<training::Evaluator>(plan_, backend_, test_);
    return evaluator_->evaluate(parameters.data(), limit);
  }
  std::vector<training::Evaluator::Score> scores(const std::vector<std::vector<float>>& replicas) {
    // Of many, some at a time: enough tasks for all threads, and yet samples are read for several replicas at
    // once.
    const std::size_t together = std::max<std::size_t>(1, replicas.size() / 64);
    std::vector<std::future<std::vector<training::Evaluator::Score>>> pending;
    for (std::size_t first = 0; first < replicas.size(); first += together) {
      const std::size_t count = std::min(together, replicas.size() - first);
      pending.push_back(pool_.submit([this, some = std::span(replicas).subspan(first, count)] {
        std::vector<const float*> parameters;
        for (const auto& replica : some) parameters.push_back(replica.data());
        return training::Evaluator(plan_, backend_, test_).evaluate(parameters);
      }));
    }
    std::vector<training::Evaluator::Score> scores;
    scores.reserve(replicas.size());
    for (auto& p : pending) {
      for (const auto& score : p.get()) scores.push_back(score);
    }
    return scores;
  }

 private:
  const models::Plan& plan_;
  const kernels::Backend& backend_;
  const datasets::Dataset& test_;
  ThreadPool& pool_;
  std::unique_ptr<training::Evaluator> evaluator_;
};

}  // namespace

Result<training::Summary> simulate(const training::Experiment& experiment, const SimulateOptions& options,
                                   const training::RunFolder& folder) {
  const auto wall_start = std::chrono::steady_clock::now();
  auto data = datasets::load(experiment.data, options.data_root);
  if (!data) return data.error();
  auto plan = training::make_plan(experiment, data->train);
  if (!plan) return plan.error();
  auto backend = training::make_host_backend(experiment);
  if (!backend) return backend.error();

  WorldOptions world_options;
  world_options.seed = experiment.seed;
  if (experiment.latency) world_options.network.latency = *experiment.latency;
  if (experiment.bandwidth) world_options.network.bandwidth = *experiment.bandwidth;
  world_options.arena_floats = plan->layout.arena_size();
  make_machines(experiment, world_options);
  auto& manifest = world_options.manifest;
  manifest.model = experiment.model;
  manifest.data = data->name;
  manifest.fingerprint = plan->layout.fingerprint();
  manifest.arena_floats = plan->layout.arena_size();
  manifest.seed = experiment.seed;
  for (const auto& [key, value] : training::shared_settings(experiment))
    manifest.settings.push_back({key, value});
  const std::uint64_t epoch_samples = data->train.size();
  auto rules = gossip::rules_from(manifest, epoch_samples);
  if (!rules) return rules.error();
  world_options.rules = *rules;
  auto schedule = training::make_schedule(experiment);
  if (!schedule) return schedule.error();
  const LearningRate rate{training::resolved_learning_rate(experiment), *schedule, epoch_samples};
  auto mix = training::mix_options(experiment);
  if (!mix) return mix.error();
  world_options.mix = *mix;
  if (const auto cells = training::chunk_cells(experiment, mix->cell_floats))
    world_options.chunk_cells = *cells;
  if (experiment.window > 0) world_options.window = experiment.window;

  unsigned threads = options.threads;
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  ThreadPool pool(threads);

  // Workers take long to make (each shuffles the data for its share), so they are made ahead, by all threads.
  using Workers = Result<std::vector<std::unique_ptr<training::Worker>>>;
  std::vector<std::future<Workers>> made;
  for (std::uint32_t machine = 0; machine < experiment.peers; ++machine) {
    made.push_back(pool.submit([&, machine] {
      return training::make_workers(experiment, *plan, **backend, data->train, machine, experiment.peers);
    }));
  }

  std::optional<Error> failure;
  World world(
      std::move(world_options),
      [&](std::uint32_t machine) -> std::unique_ptr<Learner> {
        Workers workers = made.at(machine).get();  // a machine starts once
        if (!workers) {
          failure = workers.error();
          workers = std::vector<std::unique_ptr<training::Worker>>{};
        }
        return std::make_unique<TrainingLearner>(std::move(*workers), plan->layout.arena_size(), rate, pool);
      },
      training::first_parameters(*plan, experiment.seed));

  if (auto written = folder.write("experiment.toml", training::to_toml(experiment)); !written)
    return written.error();
  std::ofstream metrics(folder.file("metrics.jsonl"), std::ios::trunc);
  Judge judge(*plan, **backend, data->test, pool);

  training::Summary summary;
  double goal_samples = 0;
  if (rules->end.swarm_samples) goal_samples = static_cast<double>(*rules->end.swarm_samples);
  std::uint64_t looks = 0;
  constexpr Duration kLookAround = std::chrono::minutes(1);
  Instant last_step, last_look_around;

  // A look comes every twentieth of an epoch. It costs as much as there are peers, so in a large swarm it
  // waits until everyone could have made a step since, of a thousand peers ten.
  const std::uint64_t steps_between = std::max<std::uint64_t>(1, experiment.peers / 100);
  const std::uint64_t look_samples =
      std::max<std::uint64_t>(std::max<std::uint64_t>(1, epoch_samples / 20),
                              steps_between * experiment.peers * experiment.workers * experiment.batch_size);
  // Everything that is looked at then, off the clock.
  const auto look = [&] {
    std::vector<std::vector<float>> replicas;
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      const auto machine = world.machine(i);
      if (machine.state != MachineState::running || !machine.has_parameters) continue;
      replicas.push_back(copy_of(machine.arena));
      training::MetricsLine line;
      line.seconds = to_seconds(world.now().since_start);
      line.peer = machine.name;
      line.steps = machine.steps;
      line.samples = machine.samples;
      line.exchanges = machine.exchanges.completed;
      line.loss = machine.loss;
      line.learning_rate = machine.learning_rate;
      metrics << training::to_json(line) << '\n';
    }
    if (replicas.empty()) return;
    std::vector<float> mean;
    training::MetricsLine line;
    line.seconds = to_seconds(world.now().since_start);
    line.peer = "mean";
    line.samples = world.samples();
    line.consensus_distance = training::consensus(replicas, mean);
    if (experiment.target_accuracy && !summary.seconds_to_target) {
      const double target = *experiment.target_accuracy;
      auto score = judge.score(mean, 1000);
      if (score.accuracy >= target - 0.01) {
        score = judge.score(mean);
        if (score.accuracy >= target) {
          summary.seconds_to_target = to_seconds(world.now() - *world.training_began());
          world.end_all();
        }
        line.accuracy = score.accuracy;
        line.loss = score.loss;
      }
    }
    metrics << training::to_json(line) << '\n';
  };

  std::uint64_t seen = 0;
  bool ending = false;
  while (!world.over() && world.run_one()) {
    if (failure) return *failure;
    const bool sampled = world.samples() != seen;
    if (!sampled) {
      if (world.now() - last_look_around < kLookAround) continue;
      last_look_around = world.now();
    }
    if (!ending && options.interrupted && options.interrupted()) {
      ending = true;
      world.end_all();
    }
    if (!sampled) {
      if (world.training_began() && !has_parameters_left(world)) break;
      continue;
    }
    seen = world.samples();
    last_step = world.now();
    const std::uint64_t due = seen / look_samples;
    if (due > looks) {
      looks = due;
      look();
      if (options.progress) {
        options.progress(to_seconds(world.now().since_start),
                         goal_samples > 0 ? static_cast<double>(seen) / goal_samples : 0);
      }
    }
  }

  // Results.
  std::vector<std::vector<float>> replicas, unsettled;
  std::vector<std::uint32_t> owners;
  for (std::uint32_t i = 0; i < world.machines(); ++i) {
    const auto machine = world.machine(i);
    if (machine.state == MachineState::finished) {
      replicas.push_back(copy_of(machine.arena));
      owners.push_back(i);
      if (!machine.before_settling.empty()) unsettled.push_back(machine.before_settling);
    }
    training::PeerRecord record;
    record.name = machine.name;
    record.steps = machine.steps;
    record.samples = machine.samples;
    record.exchanges = machine.exchanges.completed + machine.exchanges.answered;
    record.slow = slowness(experiment, i);
    record.state = state_name(machine.state);
    summary.per_peer.push_back(record);
    summary.exchanges += {machine.exchanges.completed, machine.exchanges.aborted, machine.exchanges.rejected,
                          machine.half_applied_chunks, training::refused_by_reason(machine.mixed)};
    summary.bytes_sent += machine.bytes_sent;
  }
  if (replicas.empty()) return Error{"no peer finished the run, so there is no model to judge"};

  std::vector<float> mean;
  if (!unsettled.empty()) summary.consensus_distance_before_settling = training::consensus(unsettled, mean);
  summary.consensus_distance = training::consensus(replicas, mean);
  const auto scores = judge.scores(replicas);
  const auto score = judge.score(mean);
  summary.accuracy = score.accuracy;
  summary.loss = score.loss;
  for (std::size_t k = 0; k < scores.size(); ++k) {
    summary.per_peer[owners[k]].accuracy = scores[k].accuracy;
    summary.accuracy_min = std::min(summary.accuracy_min.value_or(1), scores[k].accuracy);
    summary.accuracy_max = std::max(summary.accuracy_max.value_or(0), scores[k].accuracy);
  }

  summary.name = experiment.name;
  summary.mode = "simulate";
  summary.seed = experiment.seed;
  summary.model = experiment.model;
  summary.parameters = plan->layout.parameter_count();
  summary.data = data->name;
  summary.peers = experiment.peers;
  summary.topology = experiment.topology;
  summary.spectral_gap = topologies::spectral_gap(rules->topology.among(experiment.peers));
  summary.rule = experiment.rule;
  summary.payload = experiment.payload;
  summary.samples = world.samples();
  summary.seconds = seen > 0 ? to_seconds(last_step - *world.training_began()) : 0;
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(summary.samples) / summary.seconds : 0;
  {
    std::uint64_t hash = world.trace_hash();
    for (const auto& replica : replicas) hash = hash64(std::as_bytes(std::span(replica)), hash);
    summary.trace_hash = to_string(PeerId{hash});
  }
  std::map<std::string, std::string> metadata =
      training::model_metadata({experiment.model, experiment.layers});
  metadata.insert({{"data", data->name}, {"seed", std::to_string(experiment.seed)}});
  if (auto written =
          training::write_safetensors(folder.file("model.safetensors"), plan->layout, mean, metadata);
      !written) {
    return written.error();
  }
  metrics.flush();
  if (!metrics) return Error{"cannot write " + folder.file("metrics.jsonl") + ": the disk may be full"};
  summary.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_start).count();
  if (auto written = folder.write("summary.json", training::to_json(summary) + "\n"); !written)
    return written.error();
  return summary;
}

}  // namespace starling::lab

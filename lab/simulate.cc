#include "lab/simulate.h"

#include <algorithm>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gossip/rules.h"
#include "lab/all_reduce.h"
#include "lab/incidents.h"
#include "lab/process_faults.h"
#include "lab/run_watch.h"
#include "lab/steps_ahead.h"
#include "lab/virtual_run.h"
#include "lab/world.h"
#include "topologies/analysis.h"
#include "training/exchange/make.h"
#include "training/recipe.h"

namespace starling::lab {
namespace {

constexpr std::size_t kStepsAhead = 4;  // for each thread

// Whether somebody still has parameters: who has none yet copies them from those, or waits for ever.
bool has_parameters_left(const World& world) {
  for (std::uint32_t i = 0; i < world.machines(); ++i) {
    const auto machine = world.machine(i);
    if (machine.state == MachineState::running && machine.has_parameters) return true;
  }
  return false;
}

// Real mathematics: gradients on the replica as it was at a step's start, computed while virtual time goes on.
class TrainingLearner : public Learner {
 public:
  TrainingLearner(std::vector<std::unique_ptr<training::Worker>> workers, const LearningRate& rate, StepsAhead& ahead)
      : rate_(rate), ahead_(ahead), places_(workers.size()) {
    for (std::size_t k = 0; k < workers.size(); ++k) places_[k].worker = std::move(workers[k]);
  }
  ~TrainingLearner() override { drop_all(); }

  void begin_step(std::uint32_t worker, const models::Arena& arena, Instant ends) override {
    Place& place = places_.at(worker);
    ahead_.begin(place.step, *place.worker, arena, ends);
  }

  void arena_will_change() override {
    for (auto& place : places_) ahead_.keep(place.step);
  }

  void swarm_has_consumed(std::uint64_t samples) override { swarm_samples_ = samples; }

  std::uint64_t end_step(std::uint32_t worker, models::Arena& arena) override {
    Place& place = places_.at(worker);
    const double loss = ahead_.finish(place.step);
    smoothed_loss_ = steps_++ == 0 ? loss : 0.95 * smoothed_loss_ + 0.05 * loss;
    const double factor = training::step_rate_factor(rate_.schedule, swarm_samples_,
                                                     place.worker->batch_size(), rate_.epoch_samples);
    learning_rate_ = rate_.base * factor;
    arena_will_change();  // beside the steps of other workers
    place.worker->apply(arena, factor);
    ahead_.done(*place.worker);
    return place.worker->batch_size();
  }

  void discard_step(std::uint32_t worker) override {
    Place& place = places_.at(worker);
    if (!place.step.under_way()) return;
    ahead_.finish(place.step);  // its batch is drawn, whatever becomes of it
    ahead_.done(*place.worker);
  }
  void renew() override {
    for (auto& place : places_) {
      ahead_.wait(place.step);
      place.worker->renew();
    }
  }
  void over() override {
    drop_all();
    for (auto& place : places_) place.worker.reset();
  }

  double loss() const override { return smoothed_loss_; }
  std::optional<double> learning_rate() const override { return learning_rate_; }

 private:
  struct Place {
    std::unique_ptr<training::Worker> worker;
    StepsAhead::Step step;
  };
  void drop_all() {
    for (auto& place : places_) ahead_.drop(place.step);
  }

  const LearningRate& rate_;
  StepsAhead& ahead_;
  std::vector<Place> places_;
  std::uint64_t swarm_samples_ = 0;
  std::optional<double> learning_rate_;
  double smoothed_loss_ = 0;
  std::uint64_t steps_ = 0;
};

// Of a server, which makes no steps.
class NoLearner : public Learner {
 public:
  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena&) override { return 0; }
};

// The experiment's machines, those that train first, and what befalls them.
void make_machines(const training::Experiment& experiment, WorldOptions& options) {
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    const training::Experiment own = training::of_peer(experiment, i);
    MachineOptions machine;
    machine.name = training::peer_name(experiment, i);
    machine.workers = own.workers;
    machine.step = virtual_step(own);
    options.machines.push_back(std::move(machine));
  }
  // Servers are there first: whoever trains begins with their parameters.
  if (training::has_servers(experiment)) options.beginner = experiment.peers;
  for (std::uint32_t k = 0; k < training::servers_in_all(experiment); ++k) {
    options.machines.emplace_back();
    options.machines.back().name = training::peer_name(experiment, experiment.peers + k);
  }
  for (const auto& fault : experiment.faults) {
    if (fault.kind != training::Fault::Kind::join) continue;
    for (const std::uint32_t peer : fault.peer.among(experiment.peers))
      options.machines.at(peer).start = Instant{fault.from};
  }
  options.incidents = incidents_of(experiment);
  options.recurring = recurring_of(experiment);
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

// Nothing changes it as long as no happening is run.
std::span<const float> replica_of(const World::MachineView& machine) {
  return {machine.arena.data(), machine.arena.size()};
}

// The model as the servers have it, each its part; empty where the rule has none, or one of them has no parameters.
std::vector<float> served_model(const training::Experiment& experiment, const World& world) {
  if (!training::has_servers(experiment)) return {};
  std::vector<float> model(world.options().arena_floats);
  for (std::uint32_t k = 0; k < experiment.servers; ++k) {
    const auto server = world.machine(experiment.peers + k);
    if (!server.has_parameters) return {};
    const auto [offset, floats] = training::served_by(k, experiment.servers, model.size());
    server.arena.read(offset, std::span(model).subspan(offset, floats));
  }
  return model;
}

// Whether nobody is there any more, or comes, but servers.
bool only_servers_left(const training::Experiment& experiment, const World& world) {
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    const MachineState state = world.machine(i).state;
    if (state == MachineState::running || state == MachineState::waiting) return false;
  }
  return true;
}

}  // namespace

Result<training::Summary> simulate(const training::Experiment& experiment, const SimulateOptions& options,
                                   const training::RunFolder& folder) {
  if (experiment.rule == training::kAllReduce) return simulate_all_reduce(experiment, options, folder);
  auto made = VirtualRun::make(experiment, options, folder);
  if (!made) return made.error();
  VirtualRun& run = **made;
  const models::Layout& layout = run.plan().layout;

  WorldOptions world_options;
  world_options.seed = experiment.seed;
  if (experiment.latency) world_options.network.latency = *experiment.latency;
  if (experiment.bandwidth) world_options.network.bandwidth = *experiment.bandwidth;
  const double port = experiment.port.value_or(world_options.network.bandwidth);
  if (port != training::kUnlimited) world_options.network.port = port;
  world_options.arena_floats = layout.arena_size();
  make_machines(experiment, world_options);
  auto& manifest = world_options.manifest;
  manifest.model = experiment.model;
  manifest.data = run.data().name;
  manifest.fingerprint = layout.fingerprint();
  manifest.arena_floats = layout.arena_size();
  manifest.seed = experiment.seed;
  for (const auto& [key, value] : training::shared_settings(experiment))
    manifest.settings.push_back({key, value});
  auto rules = gossip::rules_from(manifest, run.epoch_samples());
  if (!rules) return rules.error();
  world_options.rules = *rules;
  auto mix = training::mix_options(experiment);
  if (!mix) return mix.error();
  world_options.mix = *mix;
  if (const auto cells = training::chunk_cells(experiment, mix->cell_floats))
    world_options.chunk_cells = *cells;
  if (experiment.window > 0) world_options.window = experiment.window;

  auto first = training::starting_parameters(experiment, run.plan());
  if (!first) return first.error();
  if (Status begun = run.begin(); !begun) return begun.error();
  StepsAhead ahead(run.pool(), kStepsAhead * run.pool().size());
  RunWatch watch(world_options.machines.size());
  world_options.watcher = &watch;
  std::optional<Error> failure;
  World world(
      std::move(world_options),
      [&](std::uint32_t machine) -> std::unique_ptr<Learner> {
        if (machine >= experiment.peers) return std::make_unique<NoLearner>();
        VirtualRun::Workers workers = run.workers(machine);
        if (!workers) {
          failure = workers.error();
          workers = std::vector<std::unique_ptr<training::Worker>>{};
        }
        return std::make_unique<TrainingLearner>(std::move(*workers), run.rate(), ahead);
      },
      std::move(*first));
  watch.look_at(world);

  constexpr Duration kLookAround = std::chrono::minutes(1);
  Instant last_step, last_look_around;

  // Everything that is looked at now and then, off the clock.
  const auto look_around = [&] {
    VirtualRun::Look look;
    for (std::uint32_t i = 0; i < experiment.peers; ++i) {
      const auto machine = world.machine(i);
      if (machine.state != MachineState::running || !machine.has_parameters) continue;
      look.replicas.push_back(replica_of(machine));
      training::MetricsLine line;
      line.seconds = to_seconds(world.now().since_start);
      line.peer = machine.name;
      line.steps = machine.steps;
      line.samples = machine.samples;
      line.exchanges = machine.exchanges.completed + machine.exchanges.answered +
                       machine.earlier_exchanges.completed + machine.earlier_exchanges.answered;
      line.bytes_sent = machine.bytes_sent;
      line.loss = machine.loss;
      line.learning_rate = machine.learning_rate;
      run.tell(line);
    }
    if (look.replicas.empty()) return;
    look.model = served_model(experiment, world);
    look.trained = world.now() - *world.training_began();
    look.line.seconds = to_seconds(world.now().since_start);
    look.line.samples = world.samples();
    for (std::uint32_t i = 0; i < world.machines(); ++i) {
      const auto machine = world.machine(i);
      look.line.steps += machine.steps;
      look.line.exchanges += machine.exchanges.completed;
      look.line.bytes_sent += machine.bytes_sent;
    }
    if (run.look(std::move(look))) world.end_all();
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
      if (!ending && only_servers_left(experiment, world)) {
        ending = true;
        world.end_all();
      }
      continue;
    }
    seen = world.samples();
    last_step = world.now();
    run.stepped(world.now(), seen, rules->end.swarm_samples.value_or(0));
    if (run.look_is_due(seen)) look_around();
  }

  // Results.
  training::Summary summary;
  std::string timeline;
  for (std::uint32_t i = 0; i < world.machines(); ++i)
    timeline += training::to_json_lines(world.machine(i).name, watch.timeline(i));
  if (auto written = folder.write("timeline.jsonl", timeline); !written) return written.error();
  summary.staleness = watch.staleness();
  training::Replicas replicas, unsettled;
  for (std::uint32_t i = 0; i < world.machines(); ++i) {
    const auto machine = world.machine(i);
    const bool serves = i >= experiment.peers;
    if (machine.state == MachineState::finished && !serves) {
      replicas.push_back(replica_of(machine));
      if (!machine.before_settling.empty()) unsettled.push_back(machine.before_settling);
    }
    training::PeerRecord record;
    record.name = machine.name;
    record.steps = machine.steps;
    record.samples = machine.samples;
    const gossip::ExchangeCounts& earlier = machine.earlier_exchanges;
    record.exchanges =
        machine.exchanges.completed + machine.exchanges.answered + earlier.completed + earlier.answered;
    record.slow = serves ? 1 : slowness(experiment, i);
    record.serves = serves;
    record.state = state_name(machine.state);
    summary.per_peer.push_back(record);
    summary.exchanges += {machine.exchanges.completed, machine.exchanges.aborted, machine.exchanges.rejected,
                          machine.half_applied_chunks, training::refused_by_reason(machine.mixed)};
    summary.exchanges += {earlier.completed, earlier.aborted, earlier.rejected, 0,
                          training::refused_by_reason(machine.earlier_mixed)};
    summary.bytes_sent += machine.bytes_sent;
  }
  std::vector<float> mean;
  if (!unsettled.empty()) summary.consensus_distance_before_settling = training::consensus(unsettled, mean);
  summary.spectral_gap = topologies::spectral_gap(rules->topology.among(experiment.peers));
  summary.samples = world.samples();
  summary.seconds = seen > 0 ? to_seconds(last_step - *world.training_began()) : 0;
  return run.finish(std::move(summary), replicas, served_model(experiment, world), world.trace_hash());
}

}  // namespace starling::lab

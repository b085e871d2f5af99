#include "lab/simulate/simulate.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gossip/rules.h"
#include "lab/simulate/all_reduce.h"
#include "lab/simulate/incidents.h"
#include "lab/simulate/run_watch.h"
#include "lab/simulate/simulation_file.h"
#include "lab/simulate/steps_ahead.h"
#include "lab/simulate/training_learner.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/world.h"
#include "topologies/analysis.h"
#include "training/exchange/make.h"
#include "training/experiment/conditions.h"
#include "training/replica/recipe.h"

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

std::string checkpoint_of(const training::RunFolder& folder) { return folder.file(kSimulationFile); }

// Runs the experiment, or goes on with it `from` where it stood; nullopt where that cannot be found again.
Result<std::optional<training::Summary>> run_world(const training::Experiment& experiment, const SimulateOptions& options,
                                                   const training::RunFolder& folder, const SimulationFile* from) {
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
  if (Status begun = run.begin(from != nullptr ? from->place().metrics_bytes : 0); !begun) return begun.error();
  StepsAhead ahead(run.pool(), kStepsAhead * run.pool().size());
  RunWatch watch(world_options.machines.size());
  world_options.watcher = &watch;
  std::optional<Error> failure;
  bool rehearsing = from != nullptr;  // until the world stands where it stood
  std::vector<TrainingLearner*> learners(experiment.peers);
  World world(
      std::move(world_options),
      [&](std::uint32_t machine) -> std::unique_ptr<Learner> {
        if (machine >= experiment.peers) return std::make_unique<NoLearner>();
        VirtualRun::Workers workers = run.workers(machine);
        if (!workers) {
          failure = workers.error();
          workers = std::vector<std::unique_ptr<training::Worker>>{};
        }
        auto learner = std::make_unique<TrainingLearner>(std::move(*workers), run.rate(), ahead, rehearsing);
        learners[machine] = learner.get();
        return learner;
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

  std::uint64_t seen = 0, happened = 0;
  const auto write_checkpoint = [&] {
    const auto metrics_bytes = run.settle_metrics();
    const Status written =
        metrics_bytes ? write_simulation(checkpoint_of(folder), training::to_toml(experiment),
                                         {happened, world.trace_hash(), world.samples(), *metrics_bytes}, world, learners)
                      : metrics_bytes.error();
    if (!written && options.notice) options.notice("no checkpoint is written: " + written.error().message);
  };
  bool ending = false, interrupted = false;
  while (!world.over() && world.run_one()) {
    ++happened;
    if (failure) return *failure;
    if (rehearsing && happened == from->place().happenings) {
      if (!from->put_into(world, learners)) return std::optional<training::Summary>{};
      rehearsing = false;
    }
    const bool sampled = world.samples() != seen;
    if (!sampled) {
      if (world.now() - last_look_around < kLookAround) continue;
      last_look_around = world.now();
    }
    if (!ending && options.interrupted && options.interrupted()) {
      if (rehearsing) return Error{"interrupted on the way back to where the run stood; its checkpoint is as it was"};
      if (options.checkpoint_due) write_checkpoint();
      ending = interrupted = true;
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
    if (options.checkpoint_due && !rehearsing && !ending && !run.target_reached() && options.checkpoint_due())
      write_checkpoint();
    seen = world.samples();
    last_step = world.now();
    const bool look_is_due = run.look_is_due(seen);
    if (rehearsing) continue;
    run.stepped(world.now(), seen, rules->end.swarm_samples.value_or(0));
    if (look_is_due) look_around();
  }

  if (rehearsing) return std::optional<training::Summary>{};

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
    record.slow = serves ? 1 : training::slowness(experiment, i);
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
  auto finished = run.finish(std::move(summary), replicas, served_model(experiment, world), world.trace_hash());
  if (!finished) return finished.error();
  if (!interrupted) std::remove(checkpoint_of(folder).c_str());
  return std::optional(std::move(*finished));
}

}  // namespace

Result<training::Summary> simulate(const training::Experiment& experiment, const SimulateOptions& options,
                                   const training::RunFolder& folder) {
  if (experiment.rule == training::kAllReduce) {
    if (options.resume && options.notice) options.notice("a run by all-reduce has no checkpoints: it begins anew, with the same result");
    return simulate_all_reduce(experiment, options, folder);
  }
  std::optional<training::Summary> summary;
  if (options.resume) {
    if (std::error_code error; !std::filesystem::exists(checkpoint_of(folder), error))
      return Error{"there is nothing to go on from in " + folder.path() + ": no checkpoint was written, or the run has ended"};
    const auto file = SimulationFile::open(checkpoint_of(folder), training::to_toml(experiment));
    if (!file) return file.error();
    folder.remove_end();
    auto resumed = run_world(experiment, options, folder, &*file);
    if (!resumed) return resumed.error();
    summary = std::move(*resumed);
    if (!summary && options.notice)
      options.notice("what happened hung on values that the checkpoint does not have: the run begins anew, with the same result");
  }
  if (!summary) {
    auto run = run_world(experiment, options, folder, nullptr);
    if (!run) return run.error();
    summary = std::move(*run);
  }
  return std::move(*summary);
}

}  // namespace starling::lab

#include "lab/simulate/world_run.h"

#include <cstdio>
#include <span>
#include <utility>

#include "lab/simulate/world_setup.h"
#include "topologies/analysis.h"
#include "training/exchange/make.h"
#include "training/experiment/conditions.h"
#include "training/experiment/experiment_file.h"
#include "training/replica/recipe.h"

namespace starling::lab {
namespace {

constexpr std::size_t kStepsAhead = 4;  // per thread
constexpr Duration kCheckEvery = std::chrono::minutes(1);

// A server makes no steps.
class NoLearner : public Learner {
 public:
  void begin_step(std::uint32_t, const models::Arena&, Instant) override {}
  std::uint64_t end_step(std::uint32_t, models::Arena&) override { return 0; }
};

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

bool has_parameters(const World::MachineView& machine) {
  return machine.state == MachineState::running && machine.has_parameters;
}

// Valid until the next happening.
std::span<const float> replica_of(const World::MachineView& machine) {
  return {machine.arena.data(), machine.arena.size()};
}

std::uint64_t exchanges_of(const World::MachineView& machine) {
  return machine.exchanges.completed + machine.exchanges.answered + machine.earlier_exchanges.completed +
         machine.earlier_exchanges.answered;
}

WorldOptions watched(WorldOptions options, Watcher& watcher) {
  options.watcher = &watcher;
  return options;
}

}  // namespace

Result<std::unique_ptr<WorldRun>> WorldRun::make(const training::Experiment& experiment,
                                                 const SimulateOptions& options,
                                                 const training::RunFolder& folder,
                                                 const SimulationFile* from) {
  auto run = VirtualRun::make(experiment, options, folder);
  if (!run) return run.error();
  auto world = world_of(**run);
  if (!world) return world.error();
  auto first = training::starting_parameters(experiment, (*run)->plan());
  if (!first) return first.error();
  if (Status begun = (*run)->begin(from != nullptr ? from->place().metrics_bytes : 0); !begun)
    return begun.error();
  return std::unique_ptr<WorldRun>(
      new WorldRun(options, folder, from, std::move(*run), std::move(*world), std::move(*first)));
}

WorldRun::WorldRun(const SimulateOptions& options, const training::RunFolder& folder,
                   const SimulationFile* from, std::unique_ptr<VirtualRun> run, WorldOptions world,
                   std::vector<float> first_parameters)
    : options_(options),
      folder_(folder),
      from_(from),
      run_(std::move(run)),
      experiment_(run_->experiment()),
      ahead_(run_->pool(), kStepsAhead * run_->pool().size()),
      watch_(world.machines.size()),
      learners_(experiment_.peers),
      rehearsing_(from != nullptr),
      world_(
          watched(std::move(world), watch_), [this](std::uint32_t machine) { return make_learner(machine); },
          std::move(first_parameters)) {
  watch_.look_at(world_);
}

std::unique_ptr<Learner> WorldRun::make_learner(std::uint32_t machine) {
  if (machine >= experiment_.peers) return std::make_unique<NoLearner>();
  VirtualRun::Workers workers = run_->workers(machine);
  if (!workers) {
    failure_ = workers.error();
    workers = std::vector<std::unique_ptr<training::Worker>>{};
  }
  auto learner = std::make_unique<TrainingLearner>(std::move(*workers), run_->rate(), ahead_, rehearsing_);
  learners_[machine] = learner.get();
  return learner;
}

Result<std::optional<training::Summary>> WorldRun::run() {
  while (!world_.over() && world_.run_one()) {
    ++happenings_;
    if (failure_) return *failure_;
    if (!restore_if_reached()) return std::optional<training::Summary>{};
    const bool stepped = world_.samples() != samples_;
    if (!stepped && !check_is_due()) continue;
    if (Status interrupted = end_if_interrupted(); !interrupted) return interrupted.error();
    if (stepped) {
      after_step();
    } else if (!can_continue()) {
      break;
    }
  }
  if (rehearsing_) return std::optional<training::Summary>{};
  auto finished = finish();
  if (!finished) return finished.error();
  if (!interrupted_) std::remove(folder_.file(kSimulationFile).c_str());
  return std::optional(std::move(*finished));
}

bool WorldRun::restore_if_reached() {
  if (!rehearsing_ || happenings_ != from_->place().happenings) return true;
  if (!from_->put_into(world_, learners_)) return false;
  rehearsing_ = false;
  return true;
}

bool WorldRun::check_is_due() {
  if (world_.now() - last_check_ < kCheckEvery) return false;
  last_check_ = world_.now();
  return true;
}

void WorldRun::end() {
  ending_ = true;
  world_.end_all();
}

Status WorldRun::end_if_interrupted() {
  if (ending_ || !options_.interrupted || !options_.interrupted()) return Done{};
  if (rehearsing_)
    return Error{"interrupted before the run had reached its checkpoint again; the checkpoint is unchanged"};
  if (options_.checkpoint_due) write_checkpoint();
  interrupted_ = true;
  end();
  return Done{};
}

bool WorldRun::can_continue() {
  bool parameters = false, peers = false;
  for (std::uint32_t i = 0; i < world_.machines(); ++i) {
    const auto machine = world_.machine(i);
    parameters = parameters || has_parameters(machine);
    const bool open = machine.state == MachineState::running || machine.state == MachineState::waiting;
    peers = peers || (i < experiment_.peers && open);
  }
  if (world_.training_began() && !parameters) return false;
  if (!ending_ && !peers) end();  // only servers are left
  return true;
}

void WorldRun::after_step() {
  if (options_.checkpoint_due && !rehearsing_ && !ending_ && !run_->target_reached() &&
      options_.checkpoint_due())
    write_checkpoint();
  samples_ = world_.samples();
  last_step_ = world_.now();
  const bool evaluation_is_due = run_->evaluation_is_due(samples_);
  if (rehearsing_) return;
  run_->stepped(last_step_, samples_, world_.options().rules->end.swarm_samples.value_or(0));
  if (evaluation_is_due) evaluate();
}

void WorldRun::evaluate() {
  VirtualRun::Evaluation evaluation;
  const double seconds = to_seconds(world_.now().since_start);
  for (std::uint32_t i = 0; i < experiment_.peers; ++i) {
    const auto machine = world_.machine(i);
    if (!has_parameters(machine)) continue;
    evaluation.replicas.push_back(replica_of(machine));
    training::MetricsLine line;
    line.seconds = seconds;
    line.peer = machine.name;
    line.steps = machine.steps;
    line.samples = machine.samples;
    line.exchanges = exchanges_of(machine);
    line.bytes_sent = machine.bytes_sent;
    line.loss = machine.loss;
    line.learning_rate = machine.learning_rate;
    run_->add_line(line);
  }
  if (evaluation.replicas.empty()) return;
  evaluation.model = served_model();
  evaluation.trained = world_.now() - *world_.training_began();
  evaluation.line.seconds = seconds;
  evaluation.line.samples = world_.samples();
  for (std::uint32_t i = 0; i < world_.machines(); ++i) {
    const auto machine = world_.machine(i);
    evaluation.line.steps += machine.steps;
    evaluation.line.exchanges += machine.exchanges.completed;
    evaluation.line.bytes_sent += machine.bytes_sent;
  }
  if (run_->evaluate(std::move(evaluation))) world_.end_all();
}

std::vector<float> WorldRun::served_model() const {
  if (!training::has_servers(experiment_)) return {};
  std::vector<float> model(world_.options().arena_floats);
  for (std::uint32_t k = 0; k < experiment_.servers; ++k) {
    const auto server = world_.machine(experiment_.peers + k);
    if (!server.has_parameters) return {};
    const auto [offset, floats] = training::served_by(k, experiment_.servers, model.size());
    server.arena.read(offset, std::span(model).subspan(offset, floats));
  }
  return model;
}

void WorldRun::write_checkpoint() {
  const auto metrics_bytes = run_->settle_metrics();
  const Status written =
      metrics_bytes ? write_simulation(folder_.file(kSimulationFile), training::to_toml(experiment_),
                                       {happenings_, world_.trace_hash(), world_.samples(), *metrics_bytes},
                                       world_, learners_)
                    : metrics_bytes.error();
  if (!written && options_.notice) options_.notice("no checkpoint is written: " + written.error().message);
}

void WorldRun::add_machine(std::uint32_t i, training::Summary& summary) const {
  const auto machine = world_.machine(i);
  training::PeerRecord record;
  record.name = machine.name;
  record.steps = machine.steps;
  record.samples = machine.samples;
  record.exchanges = exchanges_of(machine);
  record.serves = i >= experiment_.peers;
  record.slow = record.serves ? 1 : training::slowness(experiment_, i);
  record.state = state_name(machine.state);
  summary.per_peer.push_back(record);
  const gossip::ExchangeCounts& earlier = machine.earlier_exchanges;
  summary.exchanges += {machine.exchanges.completed, machine.exchanges.aborted, machine.exchanges.rejected,
                        machine.half_applied_chunks, training::refused_by_reason(machine.mixed)};
  summary.exchanges += {earlier.completed, earlier.aborted, earlier.rejected, 0,
                        training::refused_by_reason(machine.earlier_mixed)};
  summary.bytes_sent += machine.bytes_sent;
}

Result<training::Summary> WorldRun::finish() {
  std::string timeline;
  for (std::uint32_t i = 0; i < world_.machines(); ++i)
    timeline += training::to_json_lines(world_.machine(i).name, watch_.timeline(i));
  if (auto written = folder_.write("timeline.jsonl", timeline); !written) return written.error();
  training::Summary summary;
  summary.staleness = watch_.staleness();
  training::Replicas replicas, unsettled;
  for (std::uint32_t i = 0; i < world_.machines(); ++i) {
    add_machine(i, summary);
    const auto machine = world_.machine(i);
    if (machine.state != MachineState::finished || i >= experiment_.peers) continue;
    replicas.push_back(replica_of(machine));
    if (!machine.before_settling.empty()) unsettled.push_back(machine.before_settling);
  }
  std::vector<float> mean;
  if (!unsettled.empty()) summary.consensus_distance_before_settling = training::consensus(unsettled, mean);
  summary.spectral_gap = topologies::spectral_gap(world_.options().rules->topology.among(experiment_.peers));
  summary.samples = world_.samples();
  summary.seconds = samples_ > 0 ? to_seconds(last_step_ - *world_.training_began()) : 0;
  return run_->finish(std::move(summary), replicas, served_model(), world_.trace_hash());
}

}  // namespace starling::lab

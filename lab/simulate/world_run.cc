// simulate(): the rules with gossip or servers, in a world of virtual machines.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gossip/rules.h"
#include "lab/made_from.h"
#include "lab/recurrence.h"
#include "lab/simulate/divided_peer.h"
#include "lab/simulate/incidents.h"
#include "lab/simulate/learner_state.h"
#include "lab/simulate/run_watch.h"
#include "lab/simulate/simulate.h"
#include "lab/simulate/simulation_file.h"
#include "lab/simulate/steps_ahead.h"
#include "lab/simulate/stream_learner.h"
#include "lab/simulate/training_learner.h"
#include "lab/simulate/virtual_run.h"
#include "lab/world/world.h"
#include "topologies/spectra/analysis.h"
#include "training/learning/recipe.h"
#include "training/learning/stages/streamed_network.h"
#include "training/mixing/make.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {
namespace {

using training::Experiment;
using training::RunFolder;
using training::Summary;

constexpr std::size_t kStepsAhead = 4;  // per thread
constexpr Duration kCheckInterval = std::chrono::minutes(1);

// The states of summary.json, by MachineState: a machine that waits counts as running.
constexpr std::array kStateNames = {"running", "running", "finished", "left", "crashed", "crashed"};

constexpr std::array kPhaseNames = {"joining", "training", "settling", "finished"};  // by wire::Phase

// As the page of a real peer has it.
std::string condition_of(const World::MachineView& machine, std::span<const TimeRange> pauses, Instant now) {
  switch (machine.state) {
    case MachineState::waiting:
      return "joining";
    case MachineState::finished:
      return "finished";
    case MachineState::left:
      return "left";
    case MachineState::failed:
    case MachineState::crashed:
      return "failed";
    case MachineState::running:
      break;
  }
  const bool paused = std::any_of(pauses.begin(), pauses.end(), [now](const TimeRange& pause) {
    return !(now < pause.from) && now < pause.to;
  });
  return paused ? "paused" : kPhaseNames.at(static_cast<std::size_t>(machine.phase));
}

bool has_parameters(const World::MachineView& machine) {
  return machine.state == MachineState::running && machine.has_parameters;
}

std::uint64_t exchanges_of(const World::MachineView& machine) {
  return machine.exchanges.completed + machine.exchanges.answered + machine.earlier_exchanges.completed +
         machine.earlier_exchanges.answered;
}

WorldOptions watched(WorldOptions options, Watcher& watcher) {
  options.watcher = &watcher;
  return options;
}

// ---- the world of an experiment ----

// The pipeline of a peer if it has one without a flush, else null.
const PipelinedPeer* streaming_pipeline(const DividedPeer* divided) {
  const bool streams = divided != nullptr && divided->pipeline && divided->pipeline->streams();
  return streams ? &*divided->pipeline : nullptr;
}

std::shared_ptr<const StreamOptions> stream_of(const PipelinedPeer* pipeline) {
  if (pipeline == nullptr) return nullptr;
  return std::make_shared<const StreamOptions>(
      StreamOptions{training::StreamedNetwork::longest_stream(staged_options(pipeline->devices)),
                    pipeline->times, pipeline->devices.vertical_sync});
}

void add_machines(const VirtualRun& run, WorldOptions& options) {
  const Experiment& experiment = run.experiment();
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    const Experiment own = training::of_peer(experiment, i);
    MachineOptions machine;
    machine.name = training::peer_name(experiment, i);
    machine.workers = own.training.workers;
    machine.step = run.step_of(i);
    machine.stream = stream_of(streaming_pipeline(run.divided(i)));
    if (const DividedPeer* const divided = run.divided(i); divided != nullptr && divided->replicas) {
      for (const double step : divided->replicas->steps)
        machine.speeds.insert(machine.speeds.end(), machine.workers, to_seconds(machine.step) / step);
      machine.workers = static_cast<std::uint32_t>(machine.speeds.size());
    }
    options.machines.push_back(std::move(machine));
  }
  // A server begins: peers that train start with its parameters.
  if (training::has_servers(experiment)) options.beginner = experiment.peers;
  for (std::uint32_t k = 0; k < training::servers_in_all(experiment); ++k) {
    options.machines.emplace_back();
    options.machines.back().name = training::peer_name(experiment, experiment.peers + k);
  }
}

void add_faults(const Experiment& experiment, WorldOptions& options) {
  for (const auto& fault : experiment.faults) {
    if (fault.kind != training::Fault::Kind::join) continue;
    for (const std::uint32_t peer : fault.peer.among(experiment.peers))
      options.machines.at(peer).start = Instant{fault.from};
  }
  options.incidents = incidents_of(experiment);
  options.recurring = recurring_of(experiment);
}

void set_network(const Experiment& experiment, VirtualNetworkOptions& network) {
  if (experiment.network.latency) network.latency = *experiment.network.latency;
  if (experiment.network.bandwidth) network.bandwidth = *experiment.network.bandwidth;
  const double port = experiment.network.port.value_or(network.bandwidth);
  if (port != training::kUnlimited) network.port = port;
}

// The world of this experiment, which is the run's, or differs from it in the rule. The peers come first,
// then the parameter servers. An Error names the setting that cannot be used.
Result<WorldOptions> world_of(const VirtualRun& run, const Experiment& experiment) {
  const models::Layout& layout = run.plan().layout;
  WorldOptions options;
  options.seed = experiment.seed;
  set_network(experiment, options.network);
  options.arena_floats = layout.arena_size();
  add_machines(run, options);
  add_faults(experiment, options);
  options.together = experiment.start == training::Begin::together;
  options.peer.membership.expected = beginning_together(experiment);
  options.peer.membership.awaits_expected = true;
  options.manifest = training::manifest_of<wire::Manifest>(without_names(experiment), layout, "data");
  auto rules = gossip::rules_from(options.manifest, run.epoch_samples());
  if (!rules) return rules.error();
  options.rules = std::move(*rules);
  auto mix = training::mix_options(experiment);
  if (!mix) return mix.error();
  options.mix = *mix;
  if (const auto cells = training::chunk_cells(experiment, mix->cell_floats)) options.chunk_cells = *cells;
  if (experiment.gossip.window > 0) options.window = experiment.gossip.window;
  return options;
}

// ---- the run ----

// One run of an experiment in a world of virtual machines, from its start or from a checkpoint. A run from a
// checkpoint first repeats what happened, without computing, and then takes the values of the checkpoint.
class WorldRun {
 public:
  // Runs to the end and writes the results. `from`: null for a run from its start. nullopt if the world does
  // not reach the state of the checkpoint.
  static Result<std::optional<Summary>> simulate(const Experiment& experiment, const SimulateOptions& options,
                                                 const RunFolder& folder, const SimulationFile* from) {
    auto run = VirtualRun::make(experiment, options, folder);
    if (!run) return run.error();
    auto world = world_of(**run, experiment);
    if (!world) return world.error();
    auto first = training::starting_parameters(experiment, (*run)->plan());
    if (!first) return first.error();
    if (Status begun = (*run)->begin(from != nullptr ? from->place().metrics_bytes : 0); !begun)
      return begun.error();
    if (from != nullptr) {
      const std::string changed = changed_content(experiment, from->contents(), (*run)->made_from().contents);
      if (!changed.empty()) return Error{"cannot resume: " + changed + " the checkpoint was written"};
    }
    return WorldRun(options, folder, from, std::move(*run), std::move(*world), std::move(first->values))
        .run();
  }

 private:
  WorldRun(const SimulateOptions& options, const RunFolder& folder, const SimulationFile* from,
           std::unique_ptr<VirtualRun> run, WorldOptions world, std::vector<float> first_parameters)
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
            watched(std::move(world), watch_),
            [this](std::uint32_t machine) { return make_learner(machine); }, std::move(first_parameters)) {
    watch_.look_at(world_);
  }

  Result<std::optional<Summary>> run() {
    while (!world_.over() && world_.run_one()) {
      ++happenings_;
      if (failure_) return *failure_;
      if (!restore_if_reached()) return std::optional<Summary>{};
      const bool stepped = world_.samples() != samples_;
      if (!stepped && !check_is_due()) continue;
      if (Status interrupted = end_if_interrupted(); !interrupted) return interrupted.error();
      if (stepped) {
        after_step();
      } else if (!can_continue()) {
        break;
      }
    }
    if (rehearsing_) return std::optional<Summary>{};
    auto finished = finish();
    if (!finished) return finished.error();
    if (!interrupted_) std::remove(folder_.file(kSimulationFile).c_str());
    return std::optional(std::move(*finished));
  }

  std::unique_ptr<Learner> make_learner(std::uint32_t machine) {
    if (machine >= experiment_.peers) return std::make_unique<IdleLearner>();
    VirtualRun::Workers workers = run_->workers(machine);
    if (!workers) {
      failure_ = workers.error();
      workers = std::vector<std::unique_ptr<VirtualWorker>>{};
    }
    std::unique_ptr<RestorableLearner> learner;
    const PipelinedPeer* const pipeline = streaming_pipeline(run_->divided(machine));
    if (pipeline != nullptr && !workers->empty()) {
      learner = make_stream_learner(machine, std::move(workers->front()));
    } else {
      learner = std::make_unique<TrainingLearner>(std::move(*workers), run_->rate(), ahead_, rehearsing_,
                                                  learning_devices(machine));
    }
    learners_[machine] = learner.get();
    return learner;
  }

  std::optional<LearningDevices> learning_devices(std::uint32_t machine) const {
    const DividedPeer* const divided = run_->divided(machine);
    if (divided == nullptr || !divided->replicas) return std::nullopt;
    const ReplicaTimes& times = *divided->replicas;
    return LearningDevices{std::vector(times.steps.size(), &run_->backend()), times.average_every,
                           from_seconds(times.average)};
  }

  std::unique_ptr<RestorableLearner> make_stream_learner(std::uint32_t machine,
                                                         std::unique_ptr<VirtualWorker> worker) {
    const SimulatedDevices& devices = streaming_pipeline(run_->divided(machine))->devices;
    return std::make_unique<StreamLearner>(
        std::move(worker),
        StreamLearner::Stream{floats_of_stages(run_->plan(), devices.cuts), staged_options(devices).replicas,
                              devices.micro_batches, devices.vertical_sync},
        run_->plan(), run_->rate(), run_->pool(), rehearsing_);
  }

  // False if the world is not the one of the checkpoint.
  bool restore_if_reached() {
    if (!rehearsing_ || happenings_ != from_->place().happenings) return true;
    if (!from_->put_into(world_, learners_)) return false;
    rehearsing_ = false;
    return true;
  }
  bool check_is_due() {
    if (world_.now() - last_check_ < kCheckInterval) return false;
    last_check_ = world_.now();
    return true;
  }
  Status end_if_interrupted() {
    if (ending_ || !options_.interrupted || !options_.interrupted()) return Done{};
    if (rehearsing_)
      return Error{
          "interrupted before the run had reached its checkpoint again; the checkpoint is unchanged"};
    if (options_.checkpoint_due) write_checkpoint();
    interrupted_ = true;
    end();
    return Done{};
  }

  // False if no machine has parameters: peers without any would wait forever.
  bool can_continue() {
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

  void after_step() {
    if (options_.checkpoint_due && !rehearsing_ && !ending_ && !run_->target_reached() &&
        options_.checkpoint_due())
      write_checkpoint();
    samples_ = world_.samples();
    last_step_ = world_.now();
    const bool evaluation_is_due = run_->evaluation_is_due(samples_);
    if (rehearsing_) return;
    run_->stepped(last_step_, samples_, world_.options().rules->end.swarm_samples.value_or(0));
    if (evaluation_is_due) evaluate();
    if (options_.picture && options_.picture_due()) options_.picture(picture());
  }

  SwarmPicture picture() const {
    SwarmPicture picture;
    picture.now = world_.now();
    picture.topology = experiment_.gossip.topology;
    picture.samples = samples_;
    if (const auto goal = world_.options().rules->end.swarm_samples)
      picture.fraction = std::min(1.0, static_cast<double>(samples_) / static_cast<double>(*goal));
    if (const training::MetricsLine* line = run_->latest()) {
      picture.accuracy = line->accuracy;
      picture.disagreement = line->consensus_distance;
    }
    for (std::uint32_t i = 0; i < world_.machines(); ++i) {
      const auto machine = world_.machine(i);
      PicturedPeer& peer = picture.peers.emplace_back();
      peer.name = machine.name;
      peer.id = PeerId{i + 1};  // an instance's own id changes when it starts again
      peer.condition = condition_of(machine, world_.pauses(i), world_.now());
      peer.steps = machine.steps;
      peer.samples = machine.samples;
      peer.exchanges = exchanges_of(machine);
      peer.bytes_sent = machine.bytes_sent;
      if (machine.steps > 0) peer.loss = machine.loss;
      peer.learning_rate = machine.learning_rate;
      peer.serves = i >= experiment_.peers;
      if (machine.topology != nullptr) picture.topology = machine.topology->name();
    }
    return picture;
  }

  void end() {
    ending_ = true;
    world_.end_all();
  }

  void evaluate() {
    VirtualRun::Evaluation evaluation;
    const double seconds = to_seconds(world_.now().since_start);
    for (std::uint32_t i = 0; i < experiment_.peers; ++i) {
      const auto machine = world_.machine(i);
      if (!has_parameters(machine)) continue;
      evaluation.replicas.push_back(machine.parameters());
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

  void write_checkpoint() {
    const auto metrics_bytes = run_->settle_metrics();
    const Status written =
        metrics_bytes
            ? SimulationFile::write(
                  folder_.file(kSimulationFile), training::to_toml(experiment_), run_->made_from().contents,
                  {happenings_, world_.trace_hash(), world_.samples(), *metrics_bytes}, world_, learners_)
            : metrics_bytes.error();
    if (!written && options_.notice) options_.notice("no checkpoint is written: " + written.error().message);
  }
  Result<Summary> finish() {
    if (options_.picture) options_.picture(picture());
    std::string timeline;
    for (std::uint32_t i = 0; i < world_.machines(); ++i)
      timeline += training::to_json_lines(world_.machine(i).name, watch_.timeline(i));
    if (auto written = folder_.write("timeline.jsonl", timeline); !written) return written.error();
    Summary summary;
    summary.staleness = watch_.staleness();
    training::Replicas replicas, unsettled;
    for (std::uint32_t i = 0; i < world_.machines(); ++i) {
      add_machine(i, summary);
      const auto machine = world_.machine(i);
      if (machine.state != MachineState::finished || i >= experiment_.peers) continue;
      replicas.push_back(machine.parameters());
      if (!machine.before_settling.empty()) unsettled.push_back(machine.before_settling);
    }
    std::vector<float> mean;
    if (!unsettled.empty()) summary.consensus_distance_before_settling = training::consensus(unsettled, mean);
    summary.spectral_gap =
        topologies::spectral_gap(world_.options().rules->topology.among(experiment_.peers));
    summary.interrupted = interrupted_;
    summary.samples = world_.samples();
    if (const auto begun = world_.training_began()) summary.start_seconds = to_seconds(begun->since_start);
    summary.seconds = samples_ > 0 ? to_seconds(last_step_ - *world_.training_began()) : 0;
    return run_->finish(std::move(summary), replicas, served_model(), world_.trace_hash());
  }

  void add_machine(std::uint32_t i, Summary& summary) const {
    const auto machine = world_.machine(i);
    training::PeerRecord record;
    record.name = machine.name;
    record.precision = precision_of(i);
    record.steps = machine.steps;
    record.samples = machine.samples;
    record.exchanges = exchanges_of(machine);
    record.serves = i >= experiment_.peers;
    if (const DividedPeer* divided = record.serves ? nullptr : run_->divided(i); divided != nullptr)
      record.split = divided->text;
    record.slow = record.serves ? 1 : training::slowness(experiment_, i);
    record.state = kStateNames.at(static_cast<std::size_t>(machine.state));
    summary.per_peer.push_back(record);
    const gossip::ExchangeCounts& earlier = machine.earlier_exchanges;
    summary.exchanges += {machine.exchanges.completed, machine.exchanges.aborted, machine.exchanges.rejected,
                          machine.half_applied_chunks, training::refused_by_reason(machine.mixed)};
    summary.exchanges += {earlier.completed, earlier.aborted, earlier.rejected, 0,
                          training::refused_by_reason(machine.earlier_mixed)};
    summary.bytes_sent += machine.bytes_sent;
  }

  // Of the products of a peer; servers make none.
  std::string precision_of(std::uint32_t i) const {
    return i < experiment_.peers ? training::precision_on(training::of_peer(experiment_, i), "cpu") : "";
  }

  // The servers' model, a part from each; empty if the rule has no servers or one of them has no parameters.
  std::vector<float> served_model() const {
    if (!training::has_servers(experiment_)) return {};
    std::vector<float> model(world_.options().arena_floats);
    for (std::uint32_t k = 0; k < experiment_.gossip.servers; ++k) {
      const auto server = world_.machine(experiment_.peers + k);
      if (!server.has_parameters) return {};
      const auto [offset, floats] = training::served_by(k, experiment_.gossip.servers, model.size());
      server.arena.read(offset, std::span(model).subspan(offset, floats));
    }
    return model;
  }

  const SimulateOptions& options_;
  const RunFolder& folder_;
  const SimulationFile* from_;
  const std::unique_ptr<VirtualRun> run_;
  const Experiment& experiment_;
  StepsAhead ahead_;
  RunWatch watch_;
  std::vector<RestorableLearner*> learners_;  // of each machine that trains, the latest
  bool rehearsing_;                           // until the world has the state of the checkpoint
  World world_;

  std::optional<Error> failure_{};
  std::uint64_t happenings_ = 0, samples_ = 0;
  Instant last_step_{}, last_check_{};
  bool ending_ = false, interrupted_ = false;
};

}  // namespace

Result<FirstCopies> first_copies(const VirtualRun& run) {
  Experiment experiment = run.experiment();
  experiment.gossip = {};
  experiment.gossip.rule = Rule::none;
  auto options = world_of(run, experiment);
  if (!options) return options.error();
  std::vector<float> parameters(options->arena_floats);
  World world(
      std::move(*options), [](std::uint32_t) { return std::make_unique<IdleLearner>(); },
      std::move(parameters));
  while (!world.training_began() && !world.over() && world.run_one()) {
  }
  if (!world.training_began()) return Error{"the peers could not copy the first parameters"};
  FirstCopies copies{*world.training_began(), 0};
  for (std::uint32_t i = 0; i < experiment.peers; ++i) copies.bytes += world.machine(i).bytes_sent;
  return copies;
}

Result<Summary> simulate(const Experiment& experiment, const SimulateOptions& options,
                         const RunFolder& folder) {
  const auto notify = [&options](const char* sentence) {
    if (options.notice) options.notice(sentence);
  };
  if (traits(experiment.gossip.rule).all_at_once()) {
    if (options.resume)
      notify("a run without gossip has no checkpoints: it starts over, with the same result");
    return simulate_all_reduce(experiment, options, folder);
  }
  std::optional<Summary> summary;
  if (options.resume) {
    const std::string checkpoint = folder.file(kSimulationFile);
    if (std::error_code error; !std::filesystem::exists(checkpoint, error))
      return Error{"cannot resume: " + folder.path() +
                   " has no checkpoint; none was written, or the run has ended"};
    const auto file = SimulationFile::open(checkpoint, training::to_toml(experiment));
    if (!file) return file.error();
    folder.remove_end();
    auto resumed = WorldRun::simulate(experiment, options, folder, &*file);
    if (!resumed) return resumed.error();
    summary = std::move(*resumed);
    if (!summary)
      notify(
          "the run depends on values that the checkpoint does not contain: it starts over, with the same "
          "result");
  }
  if (!summary) {
    auto run = WorldRun::simulate(experiment, options, folder, nullptr);
    if (!run) return run.error();
    summary = std::move(*run);
  }
  return std::move(*summary);
}

}  // namespace starling::lab

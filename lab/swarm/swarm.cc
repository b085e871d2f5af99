#include "lab/swarm/swarm.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "lab/interrupts.h"
#include "lab/made_from.h"
#include "lab/swarm/evaluations.h"
#include "lab/swarm/launcher.h"
#include "lab/swarm/replica_judge.h"
#include "lab/swarm/swarm_run.h"
#include "lab/swarm/timelines.h"
#include "topologies/graph_file.h"
#include "topologies/spectra/analysis.h"
#include "topologies/topology.h"
#include "training/learning/data_facts.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/records/checkpoint.h"
#include "training/runs/records/files.h"

namespace starling::lab {
namespace {

using training::Experiment;
using training::PeerReport;

// After the request to end, how long peers may take to settle and write before they are killed.
constexpr std::chrono::seconds kEndLimit{60};
// How long a peer may try to join a run that all others have finished.
constexpr std::chrono::seconds kLateJoinLimit{10};
constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr int kExitRunFailed = 1;
constexpr int kExitBadInput = 2;
constexpr int kExitInterrupted = 130;

SwarmOutcome failure(int exit_code, const std::string& error) { return {exit_code, error, std::nullopt}; }

// ---- the results: evaluates the replicas that the members left, and writes the files ----

training::Summary describe(const SwarmRun& run) {
  const training::Experiment& experiment = run.experiment;
  training::Summary summary;
  summary.name = experiment.name;
  summary.mode = "swarm";
  summary.seed = experiment.seed;
  summary.model = experiment.model.name;
  summary.parameters = run.plan.layout.parameter_count();
  summary.data = run.data.name;
  summary.data_description = training::short_description_json(run.data);
  summary.peers = experiment.peers;
  summary.topology = topologies::shown_name(experiment.gossip.topology);
  summary.made_from = lab::made_from(run.options.contents);
  summary.rule = traits(experiment.gossip.rule).name;
  summary.payload = traits(experiment.gossip.payload).name;
  const auto topology = topologies::Topology::parse(experiment.gossip.topology);
  if (topology && !run.by_all_reduce())
    summary.spectral_gap = topologies::spectral_gap(topology->among(experiment.peers));
  return summary;
}

void add_speed(const SwarmRun& run, training::Summary& summary) {
  const SteadyTime start = run.first_step.value_or(run.launched);
  SteadyTime end = std::max(start, run.formers_end.value_or(start));
  for (const SwarmMember& member : run.members) {
    if (member.life.training_end) end = std::max(end, *member.life.training_end);
  }
  if (run.first_step) summary.start_seconds = seconds_between(run.launched, start);
  summary.seconds = seconds_between(start, end);
  summary.samples = run.samples();
  summary.epochs = static_cast<double>(summary.samples) / static_cast<double>(run.data.train.size());
  summary.epochs_asked = run.experiment.end.epochs;
  summary.interrupted = run.interrupted;
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(summary.samples) / summary.seconds : 0;
}

void add_member(const SwarmRun& run, const SwarmMember& member, const std::optional<Score>& score,
                training::Summary& summary) {
  training::PeerRecord record;
  record.name = member.name;
  record.device = member.life.report.device;
  record.precision = member.life.report.precision;
  static_cast<training::DeviceSharing&>(record) = member.life.report;
  record.steps = member.steps();
  record.samples = member.samples();
  if (score) record.accuracy = score->accuracy;
  record.exchanges = member.exchanges();
  record.serves = run.serves(member);
  record.slow = record.serves ? 1 : training::slowness(run.experiment, member.number);
  if (const auto own = training::of_peer(run.experiment, member.number).data.own_data; own && !record.serves)
    record.own_data = datasets::data_name(*own);
  if (member.life.final_state) record.state = name_of(*member.life.final_state);
  if (member.life.stopped && member.finished()) record.state = "stopped";
  summary.per_peer.push_back(record);

  Counters all = member.former;
  all.add(member.life.report);
  summary.exchanges += all.exchanges;
  summary.bytes_sent += all.bytes_sent;
  summary.staleness += all.staleness;
  if (score && member.finished()) {
    summary.accuracy_min = std::min(summary.accuracy_min.value_or(1), score->accuracy);
    summary.accuracy_max = std::max(summary.accuracy_max.value_or(0), score->accuracy);
  }
}

training::Summary summarize(const SwarmRun& run, const Judgement& judgement) {
  training::Summary summary = describe(run);
  add_speed(run, summary);
  if (judgement.mean_score) {
    summary.accuracy = judgement.mean_score->accuracy;
    summary.loss = judgement.mean_score->loss;
  }
  summary.consensus_distance = judgement.consensus_distance;
  std::size_t judged = 0;
  std::vector<std::string> before_settling, of_servers;
  for (const SwarmMember& member : run.members) {
    if (!member.started()) continue;
    add_member(run, member, judgement.replicas[judged++], summary);
    if (member.life.path_before_settling.empty()) continue;
    (run.serves(member) ? of_servers : before_settling).push_back(member.life.path_before_settling);
  }
  training::remove_files(of_servers);
  summary.consensus_distance_before_settling = consume_consensus(before_settling, run.plan);
  return summary;
}

Judgement judge(const SwarmRun& run, const Evaluations& evaluations) {
  std::vector<ReplicaFile> files;
  std::vector<std::string> servers;
  for (const SwarmMember& member : run.members) {
    if (!member.started()) continue;
    const bool trained = !run.serves(member);
    files.push_back({trained ? member.life.path : "", trained && member.finished()});
    if (!trained && evaluations.includes(member)) servers.push_back(member.life.path);
  }
  return judge_replicas(files, servers, run.plan, run.data.test);
}

Status write_model(const SwarmRun& run, const std::vector<float>& mean) {
  if (mean.empty()) return Done{};
  std::map<std::string, std::string> metadata =
      training::model_metadata({run.experiment.model.name, run.experiment.model.layers});
  metadata.merge(training::data_facts(run.data));
  metadata.insert({"name", run.experiment.name});
  return training::write_safetensors(run.folder.file("model.safetensors"), run.plan.layout, mean, metadata);
}

// Nothing is written if no peer has stages.
Status write_pipelines(const SwarmRun& run) {
  std::string lines;
  for (const SwarmMember& member : run.members) {
    if (!member.life.report.pipeline) continue;
    training::PipelineRecord record = *member.life.report.pipeline;
    record.peers = {member.name};
    lines += training::to_json(record) + '\n';
  }
  return lines.empty() ? Status(Done{}) : run.folder.write("pipelines.jsonl", lines);
}

SwarmOutcome write_results(SwarmRun& run, Timelines& timelines, const Evaluations& evaluations) {
  const Judgement judgement = judge(run, evaluations);
  training::Summary summary = summarize(run, judgement);
  summary.seconds_to_target = evaluations.seconds_to_target();
  training::add_text_figures(summary, run.data.train.context, run.data.characters_per_token());
  Status written = write_model(run, judgement.mean);
  run.metrics.close();
  if (written) written = run.folder.write("timeline.jsonl", timelines.lines(run.members));
  if (written) written = write_pipelines(run);
  summary.wall_seconds = seconds_between(run.launched, SwarmRun::now());
  if (written) written = run.folder.write("summary.json", training::to_json(summary) + "\n");
  if (!written) return failure(kExitRunFailed, written.error().message);
  if (judgement.mean.empty())
    return failure(kExitRunFailed,
                   "no peer finished, so there is no model; the peers' logs are in " + run.folder.path());
  return {0, "", std::move(summary)};
}

// ---- the run ----

class Swarm {
 public:
  Swarm(const Experiment& experiment, const models::Plan& plan, const datasets::DataPair& data,
        const SwarmOptions& options, const training::RunFolder& folder)
      : run_(experiment, plan, data, options, folder),
        timelines_(run_.members.size(), experiment.peers),
        evaluations_(run_),
        launcher_(run_, timelines_, interrupts_, evaluations_.snapshots()),
        injector_(run_, launcher_) {}

  SwarmOutcome run() {
    if (Status chosen = launcher_.choose_beginner(); !chosen)
      return failure(kExitBadInput, chosen.error().message);
    if (Status prepared = prepare_folder(); !prepared)
      return failure(kExitRunFailed, prepared.error().message);
    if (Status ended = supervise(); !ended) return failure(kExitRunFailed, ended.error().message);
    if (!begun_ && interrupts_.requested())
      return failure(kExitInterrupted, "interrupted before the first peer listened");
    if (!begun_ || lost_) return beginner_failed();
    SwarmOutcome outcome = write_results(run_, timelines_, evaluations_);
    if (run_.by_all_reduce()) launcher_.remove_rendezvous();
    return outcome;
  }

 private:
  Status prepare_folder() {
    if (Status kept = run_.folder.check_inputs(); !kept) return kept;
    const auto contents = by_names(run_.experiment, run_.options.contents);
    const std::string experiment = training::to_toml(run_.experiment, contents);
    if (Status written = run_.folder.write("experiment.toml", experiment); !written) return written;
    const std::string metrics = run_.folder.file("metrics.jsonl");
    run_.metrics.open(metrics, std::ios::trunc);
    if (!run_.metrics) return Error{"cannot write " + metrics};
    return run_.by_all_reduce() ? launcher_.make_rendezvous() : Status(Done{});
  }
  // Returns when the last process has ended; an Error if the run could not begin.
  Status supervise() {
    if (Status started = launcher_.start_beginner(); !started) return started;
    while (run_.anyone_running()) {
      wait_for_events();
      const bool had_begun = begun_;
      for (SwarmMember& member : run_.members) {
        receive_reports(member);
        collect_exit(member);
      }
      if (!begun_ && !run_.anyone_running()) break;
      if (begun_ && !had_begun && run_.anyone_running() && !interrupts_.requested()) {
        if (Status started = launcher_.start_joiners(); !started) return started;
      }
      injector_.inflict_due();
      end_if_over();
      evaluations_.close_snapshots();
      record_evaluations();
      draw(false);
    }
    evaluations_.close_snapshots();
    evaluations_.finish();
    record_evaluations();
    draw(true);
    return Done{};
  }

  void wait_for_events() {
    std::vector<pollfd> waiting;
    for (const SwarmMember& member : run_.members) {
      if (member.life.child && member.life.child->fd() >= 0)
        waiting.push_back({member.life.child->fd(), POLLIN, 0});
    }
    if (!interrupts_.requested()) waiting.push_back({interrupts_.fd(), POLLIN, 0});
    const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(injector_.until_next(kTick));
    poll(waiting.data(), waiting.size(), static_cast<int>(timeout.count()));
  }

  void receive_reports(SwarmMember& member) {
    if (!member.life.child) return;
    for (const std::string& line : member.life.child->read_lines()) {
      Result<PeerReport> report = training::parse_report(line);
      if (!report) {
        run_.warn(member.name + " sent an invalid report: " + report.error().message);
        continue;
      }
      const auto state = report->state.empty() ? member.life.state : parse_peer_state(report->state);
      if (state) {
        take_report(member, std::move(*report), *state);
      } else {
        run_.warn(member.name + " reported an unknown state: '" + report->state + "'");
      }
    }
  }

  void take_report(SwarmMember& member, PeerReport report, ProcessState state) {
    Life& life = member.life;
    if (report.kind == PeerReport::Kind::listening) {
      life.address = report.address;
      begun_ = true;
      return injector_.send_links();
    }
    if (report.kind == PeerReport::Kind::snapshot) return evaluations_.add_snapshot(member, report);
    const SteadyTime received = SwarmRun::now();
    record_times(member, report, state, received);
    if (report.kind == PeerReport::Kind::finished) {
      life.path = report.path;
      life.path_before_settling = report.path_before_settling;
    }
    if (const auto at = run_.seconds()) timelines_.add_report(member.number, life.report, report, *at);
    life.report = std::move(report);
    life.state = state;
    write_metrics(member, received);
  }

  void record_times(SwarmMember& member, const PeerReport& report, ProcessState state, SteadyTime received) {
    Life& life = member.life;
    const double longest = seconds_between(run_.launched, received);
    const auto trained = std::chrono::duration_cast<SteadyTime::duration>(
        std::chrono::duration<double>(std::clamp(report.seconds, 0.0, longest)));
    if (report.steps > 0) {
      if (!life.first_step) next_draw_ = received;
      // The earliest of all reports: a delayed one makes the beginning appear later than it was.
      life.first_step = std::min(life.first_step.value_or(received), received - trained);
      run_.first_step = std::min(run_.first_step.value_or(received), *life.first_step);
    }
    if (!life.first_step) return;
    if (state == ProcessState::training) {
      life.training_end = received;
    } else if (!life.trained) {
      life.training_end = std::min(received, *life.first_step + trained);  // `seconds` stops with training
      life.trained = true;
    }
  }

  void write_metrics(const SwarmMember& member, SteadyTime received) {
    training::MetricsLine line;
    line.peer = member.name;
    line.steps = member.steps();
    line.samples = member.samples();
    line.exchanges = member.exchanges();
    line.bytes_sent = member.bytes_sent();
    line.loss = member.life.report.loss;
    line.learning_rate = member.life.report.learning_rate;
    if (!run_.first_step || (line.steps == 0 && line.exchanges == 0)) return;
    line.seconds = seconds_between(*run_.first_step, received);
    run_.metrics << training::to_json(line) << '\n';
  }

  void collect_exit(SwarmMember& member) {
    if (!member.running()) return;
    const std::optional<ChildProcess::Exit> exit = member.life.child->exited();
    if (!exit) return;
    receive_reports(member);  // the last ones
    launcher_.record_exit(member, *exit);
    // With all-reduce the others would wait for it.
    if (run_.by_all_reduce() && member.life.final_state == ProcessState::crashed && !run_.end_sent)
      launcher_.end_all();
    if (member.life.returns) launcher_.start_again(member);
  }

  void record_evaluations() {
    const bool reached = evaluations_.record();
    if (reached && !run_.end_sent) launcher_.end_all();
  }

  void end_if_over() {
    if (run_.end_sent) {
      if (SwarmRun::now() - *run_.end_sent > kEndLimit) launcher_.kill_all();
    } else if (beginner_is_lost()) {
      lost_ = true;
      launcher_.end_all();
    } else if (interrupts_.requested()) {
      run_.inform("ending the run; press Ctrl-C again to kill it");
      run_.interrupted = true;
      for (SwarmMember& member : run_.members) member.life.stopped = member.running();
      launcher_.end_all();
    } else if (only_paused_left() || only_servers_left()) {
      launcher_.end_all();
    } else {
      dismiss_late_joiners();
    }
  }

  // Whether the first peer has failed before anyone made a step. The others would wait for its parameters.
  bool beginner_is_lost() const {
    const Life& first = launcher_.beginner().life;
    return begun_ && !run_.first_step && first.final_state == ProcessState::crashed && !first.returns;
  }
  // Whether all that still run are paused, and none of them will resume before the run ends. With all-reduce
  // one paused peer stops all.
  bool only_paused_left() const {
    bool paused = false;
    for (const SwarmMember& member : run_.members) {
      if (member.running() && !member.life.paused() && !run_.by_all_reduce()) return false;
      paused = paused || (member.running() && member.life.paused());
    }
    return paused && (run_.anyone_finished() || !injector_.resumes_someone());
  }
  // Whether all peers that train have ended and none will come.
  bool only_servers_left() const {
    if (!training::has_servers(run_.experiment)) return false;
    bool worked = false;
    for (const SwarmMember& member : run_.members) {
      if (!run_.serves(member) && member.running()) return false;
      worked = worked || (!run_.serves(member) && member.started());
    }
    return worked && !injector_.starts_someone();
  }
  // A peer that tries to join a run which all others have finished would try forever.
  void dismiss_late_joiners() {
    bool late = false;
    for (const SwarmMember& member : run_.members) {
      late = late || (member.running() && !run_.serves(member));
      if (member.running() && (member.life.first_step || run_.serves(member))) return late_since_.reset();
    }
    if (!run_.anyone_finished() || !late) return late_since_.reset();
    if (!late_since_) late_since_ = SwarmRun::now();
    if (SwarmRun::now() - *late_since_ < kLateJoinLimit) return;  // it may have joined and not reported yet
    run_.end_sent = SwarmRun::now();
    for (SwarmMember& member : run_.members) {
      if (!member.running()) continue;
      run_.warn(member.name + " is stopped: the run ended before it had joined");
      member.life.child->tell(training::kLeaveCommand);
    }
  }

  void draw(bool last) {
    if (!last && SwarmRun::now() < next_draw_) return;
    next_draw_ = SwarmRun::now() + std::chrono::duration_cast<SteadyTime::duration>(
                                       std::chrono::duration<double>(run_.table.seconds_between()));
    std::vector<LiveRow> rows;
    for (const SwarmMember& member : run_.members) {
      if (!member.started()) continue;
      const PeerReport& report = member.life.report;
      LiveRow& row = rows.emplace_back(LiveRow{report, member.name, member.life.state, member.exchanges()});
      row.steps = member.steps();
      if (member.life.paused()) row.state = ProcessState::paused;
    }
    run_.table.draw(rows, total());
  }

  LiveTotal total() const {
    LiveTotal total;
    total.seconds = seconds_between(run_.launched, SwarmRun::now());
    const auto epoch = static_cast<double>(std::max<std::size_t>(run_.data.train.size(), 1));
    total.epochs = static_cast<double>(run_.samples()) / epoch;
    total.epochs_end = run_.experiment.end.epochs;
    for (const SwarmMember& member : run_.members) total.exchanges += member.exchanges_begun();
    total.accuracy = evaluations_.accuracy();
    estimate_time_left(total);
    return total;
  }

  void estimate_time_left(LiveTotal& total) const {
    const auto elapsed = run_.seconds();
    if (!elapsed) return;
    const Experiment& experiment = run_.experiment;
    const auto left = [&total](double seconds) {
      total.seconds_left = std::max(0.0, std::min(seconds, total.seconds_left.value_or(seconds)));
    };
    double rate = 0;     // samples per second, of all
    double slowest = 0;  // seconds
    for (const SwarmMember& member : run_.members) {
      const PeerReport& report = member.life.report;
      if (!member.running() || member.life.state != ProcessState::training) continue;
      rate += report.samples_per_second.value_or(0);
      if (!experiment.end.steps || report.steps == 0 || report.seconds <= 0) continue;
      const auto to_go = static_cast<double>(*experiment.end.steps) - static_cast<double>(report.steps);
      slowest = std::max(slowest, to_go * report.seconds / static_cast<double>(report.steps));
    }
    if (experiment.end.epochs && rate > 0)
      left((*experiment.end.epochs - total.epochs) * static_cast<double>(run_.data.train.size()) / rate);
    if (experiment.end.steps && slowest > 0) left(slowest);
    if (experiment.end.seconds) left(to_seconds(*experiment.end.seconds) - *elapsed);
  }

  SwarmOutcome beginner_failed() const {
    const SwarmMember& first = launcher_.beginner();
    const auto& exit = first.life.exit;
    const int code = exit && exit->signal == 0 && exit->status != 0 ? exit->status : kExitRunFailed;
    const std::string log = run_.log_path(first);
    const std::string message = last_message(log);
    return failure(
        code, message.empty() ? "the first peer ended before the run began; its log is " + log : message);
  }

  Interrupts interrupts_{};
  SwarmRun run_;
  Timelines timelines_;
  Evaluations evaluations_;
  Launcher launcher_;
  FaultInjector injector_;
  bool begun_ = false;                      // the first peer listens
  bool lost_ = false;                       // and has failed before anyone made a step
  std::optional<SteadyTime> late_since_{};  // since when only late joiners are left
  SteadyTime next_draw_ = run_.launched;
};

}  // namespace

SwarmOutcome run_swarm(const Experiment& experiment, const models::Plan& plan, const datasets::DataPair& data,
                       const SwarmOptions& options, const training::RunFolder& folder) {
  return Swarm(experiment, plan, data, options, folder).run();
}

}  // namespace starling::lab

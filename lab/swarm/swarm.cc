#include "lab/swarm/swarm.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "lab/swarm/child_process.h"
#include "lab/interrupts.h"
#include "lab/swarm/live_table.h"
#include "lab/swarm/mean_watch.h"
#include "lab/swarm/peer_command.h"
#include "lab/swarm/process_faults.h"
#include "lab/recurrence.h"
#include "lab/swarm/replica_judge.h"
#include "topologies/analysis.h"
#include "topologies/topology.h"
#include "training/records/checkpoint.h"
#include "training/records/files.h"
#include "training/experiment/conditions.h"
#include "training/experiment/control.h"
#include "training/records/timeline.h"

namespace starling::lab {
namespace {

using training::Experiment;
using training::PeerReport;
using SteadyTime = std::chrono::steady_clock::time_point;

// The end of a run that has a target and nothing else, should the target never be reached.
constexpr double kMostEpochs = 100;
// How many addresses a joiner is given: the first that answers is enough.
constexpr std::size_t kJoinAddresses = 8;
// With all-reduce, how long peers wait for one another beyond the pauses that are meant to be.
constexpr std::chrono::minutes kStepPatience{10};
// After Ctrl-C or the target, how long peers may take to settle and write before they are killed.
constexpr std::chrono::seconds kPatience{60};
// How long somebody may look for a run that all others have finished.
constexpr std::chrono::seconds kLatePatience{10};
constexpr std::chrono::milliseconds kTick{100};
constexpr int kExitRunFailed = 1;
constexpr int kExitBadInput = 2;
constexpr int kExitInterrupted = 130;

double seconds_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration<double>(to - from).count();
}

// The last line of a log that says anything: a peer's error sentence, without what stands before it.
std::string last_words(const std::string& path) {
  std::ifstream log(path);
  std::string line, last;
  while (std::getline(log, line)) {
    if (!line.empty()) last = line;
  }
  const std::string prefix = "starling peer: ";
  return last.starts_with(prefix) ? last.substr(prefix.size()) : last;
}

// One peer as the launcher knows it.
struct Member {
  std::uint32_t number = 0;
  std::string name;
  std::optional<ChildProcess> child;
  std::optional<ChildProcess::Exit> exit;
  PeerReport report;                       // the latest
  std::string address;                     // where it listens, once it does
  std::map<std::uint32_t, training::LinkShape> links;  // what it was told of those to others
  std::string final_state;                 // finished, left or crashed, once its process has ended
  std::string path, path_before_settling;  // of what it left
  std::optional<SteadyTime> first_step, training_end;
  bool trained = false;        // training_end is final
  std::uint64_t snapshot = 0;  // the latest that it left
  bool paused = false;

  // Its time line, up to `drawn`, in seconds from the first step of the run; and what stands still of the rest.
  training::Timeline timeline{};
  double drawn = 0;
  std::optional<double> paused_at{};
  double stood_still = 0;  // seconds of pauses that are over, since `drawn`

  // Of a peer that goes and comes back: how many processes it has had, the sum of what the former ones said
  // last, whether the latest was told to go, and whether the next one starts as soon as it has gone.
  std::uint32_t lives = 0;
  PeerReport former;
  bool going = false, returns = false;

  bool started() const { return lives > 0; }
  bool running() const { return child.has_value() && !exit; }
  // Of all its processes.
  std::uint64_t steps() const { return former.steps + report.steps; }
  std::uint64_t samples() const { return former.samples + report.samples; }
  std::uint64_t exchanges() const {
    return former.exchanges.completed + former.answered + report.exchanges.completed + report.answered;
  }
};

class Swarm {
 public:
  Swarm(const Experiment& experiment, const models::Plan& plan, const datasets::DataPair& data,
        const SwarmOptions& options, const training::RunFolder& folder)
      : experiment_(experiment), plan_(plan), data_(data), options_(options), folder_(folder), told_(experiment), table_(options.tell) {
    if (target_only()) told_.epochs = kMostEpochs;
  }

  SwarmOutcome run();

 private:
  // Starting.
  Status prepare_folder();
  Status start(Member& member);
  std::vector<std::string> arguments_of_all_reduce(PeerPlace place) const;
  void start_again(Member& member);
  Status start_joiners();

  // While it runs.
  Status watch();
  void wait_for_events();
  void hear(Member& member);
  void take_report(Member& member, PeerReport report);
  void draw_time(Member& member, const PeerReport& report);
  void draw_stopped(Member& member);
  void note_pause(Member& member, bool paused);
  std::string timelines();
  void take_snapshot(Member& member, const PeerReport& report);
  void close_snapshots();
  void take_looks();
  void reap(Member& member);
  void inflict_due_faults();
  void inflict(const ProcessFault& fault);
  void tell_links();
  void end_all();
  bool only_paused_left() const;
  void send_latecomers_away();
  void stop_if_over();
  void draw(bool last);
  LiveTotal total() const;

  // When it is over.
  training::Summary summarize(const Judgement& judgement);
  SwarmOutcome results();

  SteadyTime now() const { return std::chrono::steady_clock::now(); }
  // A look takes the peers' time, so there are none unless something needs them.
  bool takes_looks() const {
    return experiment_.looks ? *experiment_.looks > 0 : experiment_.target_accuracy.has_value();
  }
  bool target_only() const {
    return experiment_.target_accuracy && !experiment_.epochs && !experiment_.steps && !experiment_.seconds;
  }
  bool serves(const Member& member) const { return member.number >= experiment_.peers; }
  // Whether its parameters, or a part of them, are the model's at a look: of a server at the top, where there are any.
  bool counts_at_looks(const Member& member) const {
    if (!training::has_servers(experiment_)) return true;
    return serves(member) && member.number - experiment_.peers < experiment_.servers;
  }
  bool only_servers_left() const;
  bool all_at_once() const { return experiment_.rule == training::kAllReduce; }
  bool anyone_running() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& member) { return member.running(); });
  }
  std::uint64_t samples() const;
  std::string rendezvous() const { return folder_.file("rendezvous"); }
  std::string log_path(const Member& member) const {
    const std::string life = member.lives > 1 ? "." + std::to_string(member.lives) : "";
    return folder_.file(member.name + life + ".log");
  }

  const Experiment& experiment_;
  const models::Plan& plan_;
  const datasets::DataPair& data_;
  const SwarmOptions& options_;
  const training::RunFolder& folder_;
  Experiment told_;  // to whoever begins it

  Interrupts interrupts_;
  const SteadyTime launched_ = now();
  std::vector<Member> members_;  // by number
  std::size_t beginner_ = 0;
  std::optional<ProcessFaults> faults_;
  std::optional<SteadyTime> begun_;      // its first peer listens
  std::optional<SteadyTime> run_start_;  // the first step, from which the times of faults and results count
  std::optional<SteadyTime> end_said_;   // when all were told to end
  std::optional<SteadyTime> late_since_;  // when nobody was left but those who look for a run that is over
  std::optional<SteadyTime>
      formers_end_;  // the latest end of training of a process that another one followed
  std::ofstream metrics_;

  struct Snapshot {
    double seconds = 0;
    std::vector<std::pair<std::uint32_t, std::string>> paths;  // by the peers' numbers
  };
  std::map<std::uint64_t, Snapshot> snapshots_;  // those that not all peers have passed
  std::unique_ptr<MeanWatch> mean_watch_;
  std::optional<double> seconds_to_target_;
  std::optional<double> mean_accuracy_;  // at the last look

  void say(spdlog::level::level_enum level, const std::string& text);

  LiveTable table_;
  SteadyTime next_draw_ = launched_;
};

Status Swarm::prepare_folder() {
  if (Status written = folder_.write("experiment.toml", training::to_toml(experiment_)); !written)
    return written;
  metrics_.open(folder_.file("metrics.jsonl"), std::ios::trunc);
  if (!metrics_) return Error{"cannot write " + folder_.file("metrics.jsonl")};
  if (!all_at_once()) return Done{};
  // A former run's addresses must not be taken for this one's.
  std::error_code problem;
  std::filesystem::remove_all(rendezvous(), problem);
  if (std::filesystem::create_directory(rendezvous(), problem); problem)
    return Error{"cannot make " + rendezvous() + ": " + problem.message()};
  return Done{};
}

std::vector<std::string> Swarm::arguments_of_all_reduce(PeerPlace place) const {
  place.rendezvous = rendezvous();
  place.patience = kStepPatience;
  for (const training::Fault& fault : experiment_.faults) {
    if (fault.kind == training::Fault::Kind::pause && fault.to) place.patience += *fault.to - fault.from;
  }
  return beginner_arguments(training::of_peer(told_, place.number), place);
}

Status Swarm::start(Member& member) {
  const PeerPlace place{
      .number = member.number,
      .out = folder_.path(),
      .control_fd = ChildProcess::kControlFd,
      .snapshots = takes_looks() && counts_at_looks(member),
      .key = options_.key,
      .late = run_start_ ? std::chrono::duration_cast<Duration>(now() - *run_start_) : Duration{0}};
  std::vector<std::string> arguments;
  const Experiment told = training::of_peer(told_, member.number);
  if (all_at_once()) {
    arguments = arguments_of_all_reduce(place);
  } else if (member.number == members_[beginner_].number && member.lives == 0) {
    arguments = beginner_arguments(told, place);
  } else {
    std::vector<std::string> addresses;
    for (const Member& other : members_) {
      if (other.running() && !other.address.empty() && addresses.size() < kJoinAddresses) {
        addresses.push_back(other.address);
      }
    }
    if (addresses.empty()) return Error{"no peer is left that " + member.name + " could join"};
    arguments = joiner_arguments(told, place, addresses);
  }
  // A former run's replica must not be taken for this one's.
  std::error_code ignored;
  std::filesystem::remove(folder_.file(member.name + ".safetensors"), ignored);
  ++member.lives;
  Result<ChildProcess> child = ChildProcess::start(options_.program, arguments, log_path(member));
  if (!child) return child.error();
  interrupts_.add(child->pid());
  draw_stopped(member);
  member.child.emplace(std::move(*child));
  member.report.state = "starting";
  return Done{};
}

// A new process of a peer whose last one has ended. It joins as anybody would, under its old name.
void Swarm::start_again(Member& member) {
  const bool over = std::any_of(members_.begin(), members_.end(),
                                [](const Member& other) { return other.final_state == "finished"; });
  if (over || end_said_) return;
  member.going = member.returns = false;
  const PeerReport last = std::exchange(member.report, {});
  member.former.steps += last.steps;
  member.former.samples += last.samples;
  member.former.answered += last.answered;
  member.former.bytes_sent += last.bytes_sent;
  member.former.exchanges += last.exchanges;
  member.former.staleness += last.staleness;
  if (member.training_end)
    formers_end_ = std::max(formers_end_.value_or(*member.training_end), *member.training_end);
  member.exit.reset();
  member.child.reset();
  member.address.clear();
  member.links.clear();
  for (Member& other : members_) other.links.erase(member.number);  // it will listen elsewhere
  member.path.clear();
  member.path_before_settling.clear();
  member.first_step.reset();
  member.training_end.reset();
  member.trained = member.paused = false;
  member.snapshot = 0;
  if (Status started = start(member); !started) {
    member.report.state = member.final_state;
    return say(spdlog::level::warn, started.error().message);
  }
  member.final_state.clear();
}

Status Swarm::start_joiners() {
  for (Member& member : members_) {
    if (member.started() || joins_late(experiment_, member.number)) continue;
    if (Status started = start(member); !started) return started;
  }
  return Done{};
}

void Swarm::wait_for_events() {
  std::vector<pollfd> waiting;
  for (const Member& member : members_) {
    if (member.child && member.child->fd() >= 0) waiting.push_back({member.child->fd(), POLLIN, 0});
  }
  if (!interrupts_.requested()) waiting.push_back({interrupts_.fd(), POLLIN, 0});
  auto timeout = kTick;
  if (const auto next = faults_->next(); run_start_ && next) {
    const auto due = std::chrono::ceil<std::chrono::milliseconds>(*run_start_ + *next - now());
    timeout = std::clamp(due, std::chrono::milliseconds{0}, kTick);
  }
  poll(waiting.data(), waiting.size(), static_cast<int>(timeout.count()));
}

void Swarm::hear(Member& member) {
  if (!member.child) return;
  for (const std::string& line : member.child->read_lines()) {
    Result<PeerReport> report = training::parse_report(line);
    if (report) {
      take_report(member, std::move(*report));
    } else {
      say(spdlog::level::warn,
          member.name + " said something that is not understood: " + report.error().message);
    }
  }
}

void Swarm::take_report(Member& member, PeerReport report) {
  const SteadyTime heard = now();
  if (report.kind == PeerReport::Kind::listening) {
    member.address = report.address;
    if (!begun_) begun_ = heard;
    tell_links();
    return;
  }
  if (report.kind == PeerReport::Kind::snapshot) {
    take_snapshot(member, report);
    return;
  }
  const auto trained = std::chrono::duration_cast<SteadyTime::duration>(
      std::chrono::duration<double>(std::clamp(report.seconds, 0.0, seconds_between(launched_, heard))));
  if (report.steps > 0) {
    if (!member.first_step) next_draw_ = heard;  // worth a line at once
    // The earliest beginning that any report tells of: one that was heard late makes it look later than it was.
    member.first_step = std::min(member.first_step.value_or(heard), heard - trained);
    run_start_ = std::min(run_start_.value_or(heard), *member.first_step);
  }
  if (member.first_step && report.state == "training") {
    member.training_end = heard;  // so far: where a peer dies, this was its last sign
  } else if (member.first_step && !member.trained) {
    member.training_end =
        std::min(heard, *member.first_step + trained);  // its clock stopped where training did
    member.trained = true;
  }
  if (report.kind == PeerReport::Kind::finished) {
    member.path = report.path;
    member.path_before_settling = report.path_before_settling;
  }
  draw_time(member, report);
  member.report = std::move(report);
  training::MetricsLine line;
  line.peer = member.name;
  line.steps = member.steps();
  line.samples = member.samples();
  line.exchanges = member.exchanges();
  line.bytes_sent = member.former.bytes_sent + member.report.bytes_sent;
  line.loss = member.report.loss;
  line.learning_rate = member.report.learning_rate;
  if (!run_start_ || (line.steps == 0 && line.exchanges == 0)) return;  // nothing has happened to it yet
  line.seconds = seconds_between(*run_start_, heard);
  metrics_ << training::to_json(line) << '\n';
}

// What a peer says it did since its last report, over the time since that was heard. It knows nothing of its pauses.
void Swarm::draw_time(Member& member, const PeerReport& report) {
  if (!run_start_) return;
  const double at = seconds_between(*run_start_, now());
  const double time = at - member.drawn;
  if (!(time > 0)) return;
  const double still =
      std::min(time, member.stood_still + (member.paused_at ? at - std::max(*member.paused_at, member.drawn) : 0));
  const double active = time - still;
  double computing = std::max(0.0, report.computing_seconds - member.report.computing_seconds);
  double waiting = std::max(0.0, report.waiting_seconds - member.report.waiting_seconds);
  const double exchanging = std::max(0.0, report.exchanging_seconds - member.report.exchanging_seconds);
  waiting = std::max(0.0, waiting - std::max(0.0, still - computing));
  computing = std::max(0.0, computing - still);
  training::Activity doing;
  if (active > 0) {
    doing.computing = std::min(1.0, computing / active);
    doing.exchanging = std::min(1.0, exchanging / active);
    doing.waiting = std::min({1.0, waiting / active, 1 - std::max(doing.computing, doing.exchanging)});
    doing.waiting = std::max(doing.waiting, 1 - doing.computing - doing.exchanging);
  }
  // The pause last: whatever was told, was told before it or long after.
  const auto steps = static_cast<double>(report.steps - std::min(report.steps, member.report.steps));
  const bool standing = member.paused_at.has_value();
  const double from = standing ? member.drawn : member.drawn + still;
  const training::Activity stopped{.stopped = 1};
  if (!standing) member.timeline.add(member.drawn, from, stopped);
  member.timeline.add(from, from + active, doing, steps);
  if (standing) member.timeline.add(from + active, at, stopped);
  member.drawn = at;
  member.stood_still = 0;
}

// It is not there up to now.
void Swarm::draw_stopped(Member& member) {
  if (!run_start_) return;
  const double at = seconds_between(*run_start_, now());
  member.timeline.add(member.drawn, at, {.stopped = 1});
  member.drawn = std::max(member.drawn, at);
}

void Swarm::note_pause(Member& member, bool paused) {
  member.paused = paused;
  if (!run_start_) return;
  const double at = seconds_between(*run_start_, now());
  if (paused) {
    member.paused_at = at;
  } else if (member.paused_at) {
    member.stood_still += at - std::max(*member.paused_at, member.drawn);
    member.paused_at.reset();
  }
}

std::string Swarm::timelines() {
  double end = 0;
  for (const Member& member : members_) end = std::max(end, member.drawn);
  std::string text;
  for (Member& member : members_) {
    member.timeline.add(member.drawn, end, {.stopped = 1});
    text += training::to_json_lines(member.name, member.timeline);
  }
  return text;
}

void Swarm::take_snapshot(Member& member, const PeerReport& report) {
  member.snapshot = std::max(member.snapshot, report.snapshot);
  if (report.path.empty()) return;
  Snapshot& snapshot = snapshots_[report.snapshot];
  snapshot.paths.emplace_back(member.number, report.path);
  if (!run_start_) run_start_ = now();
  snapshot.seconds = seconds_between(*run_start_, now());
}

// Hands on the snapshots that every live peer has left or passed. The peers that were there count; one that
// joined later has none of them.
void Swarm::close_snapshots() {
  while (!snapshots_.empty()) {
    const std::uint64_t number = snapshots_.begin()->first;
    for (const Member& member : members_) {
      const bool live = member.running() && !member.paused && (member.first_step || serves(member));
      if (live && counts_at_looks(member) && member.snapshot < number) return;
    }
    Snapshot snapshot = std::move(snapshots_.begin()->second);
    snapshots_.erase(snapshots_.begin());
    std::sort(snapshot.paths.begin(), snapshot.paths.end());
    const bool served = training::has_servers(experiment_);
    MeanWatch::Look look{snapshot.seconds, {}, served};
    for (auto& [of, path] : snapshot.paths) look.paths.push_back(std::move(path));
    if (mean_watch_ && (!served || look.paths.size() == experiment_.servers)) {
      mean_watch_->add(std::move(look));
    } else {
      training::remove_files(look.paths);
    }
  }
}

void Swarm::take_looks() {
  if (!mean_watch_) return;
  for (const MeanWatch::Seen& seen : mean_watch_->take()) {
    mean_accuracy_ = seen.accuracy;
    training::MetricsLine line;
    line.seconds = seen.seconds;
    line.peer = "mean";
    line.samples = samples();
    for (const Member& member : members_) {
      line.steps += member.report.steps;
      line.exchanges += member.report.exchanges.completed;
      line.bytes_sent += member.former.bytes_sent + member.report.bytes_sent;
    }
    line.loss = seen.loss;
    line.accuracy = seen.accuracy;
    line.consensus_distance = seen.consensus_distance;
    metrics_ << training::to_json(line) << '\n';
    if (!seen.reached || seconds_to_target_) continue;
    seconds_to_target_ = seen.seconds;
    say(spdlog::level::info, fmt::format("target accuracy {:g} reached after {:.1f} s",
                                         *experiment_.target_accuracy, seen.seconds));
    if (target_only()) end_all();
  }
}

void Swarm::reap(Member& member) {
  if (!member.running()) return;
  const std::optional<ChildProcess::Exit> exit = member.child->exited();
  if (!exit) return;
  hear(member);  // what it said last
  member.exit = exit;
  interrupts_.remove(member.child->pid());
  const bool orderly = exit->signal == 0 && exit->status == 0;
  if (orderly && (member.report.state == "finished" || member.report.state == "left")) {
    member.final_state = member.report.state;
  } else {
    member.final_state = "crashed";
    const std::string how = exit->signal != 0 ? "signal " + std::to_string(exit->signal)
                                              : "exit code " + std::to_string(exit->status);
    const std::string log = log_path(member);
    const std::string words = exit->signal != 0 ? "" : last_words(log);
    say(spdlog::level::warn,
        member.name + " ended with " + how + (words.empty() ? "" : ": " + words) + " (" + log + ")");
  }
  member.report.state = member.final_state;
  // Those that have not met it yet would wait for it.
  if (all_at_once() && member.final_state == "crashed" && !end_said_) end_all();
  if (member.returns) start_again(member);
}

void Swarm::inflict_due_faults() {
  if (!run_start_ || end_said_) return;
  const auto at = std::chrono::duration_cast<Duration>(now() - *run_start_);
  while (const auto fault = faults_->take(at)) inflict(*fault);
}

void Swarm::inflict(const ProcessFault& fault) {
  Member& member = members_[fault.peer];
  using Act = ProcessFault::Act;
  if (fault.act == Act::start) {
    if (member.started()) return;
    if (Status started = start(member); !started) say(spdlog::level::warn, started.error().message);
    return;
  }
  if (fault.act == Act::links) return tell_links();
  if (fault.act == Act::back) {
    if (!member.started()) return;
    member.returns = member.going;
    if (!member.running()) start_again(member);
    return;
  }
  if (!member.running()) return;
  switch (fault.act) {
    case Act::pause:
      note_pause(member, true);
      member.child->signal(SIGSTOP);
      break;
    case Act::resume:
      note_pause(member, false);
      member.child->signal(SIGCONT);
      break;
    case Act::crash:
      member.going = true;
      member.child->signal(SIGKILL);
      break;
    case Act::leave:
      member.going = true;
      member.child->signal(SIGTERM);
      if (member.paused) member.child->signal(SIGCONT);
      note_pause(member, false);
      break;
    case Act::start:
    case Act::back:
    case Act::links:
      break;
  }
}

// Both ends of every link that has become another since they were told what it is like.
void Swarm::tell_links() {
  const bool some = std::any_of(experiment_.faults.begin(), experiment_.faults.end(),
                                [](const auto& fault) { return fault.kind == training::Fault::Kind::link; });
  if (!some || !run_start_) return;
  const auto at = std::chrono::duration_cast<Duration>(now() - *run_start_);
  const training::LinkShape usual{experiment_.latency, experiment_.bandwidth};
  for (Member& from : members_) {
    if (!from.running()) continue;
    for (const Member& to : members_) {
      if (to.number == from.number || to.address.empty()) continue;
      const training::LinkShape shape = training::link_at(experiment_, from.number, to.number, at);
      training::LinkShape& told = from.links.try_emplace(to.number, usual).first->second;
      if (shape == told) continue;
      const Result<Address> address = Address::parse(to.address);
      if (!address) continue;  // it said nonsense
      told = shape;
      from.child->tell(training::format_link_order(
          {*address, shape.latency.value_or(Duration{0}), shape.bandwidth.value_or(0), shape.drop}));
    }
  }
}

void Swarm::end_all() {
  if (!end_said_) end_said_ = now();
  for (Member& member : members_) {
    if (!member.running()) continue;
    member.child->tell(training::kEndCommand);
    if (member.paused) member.child->signal(SIGCONT);
    note_pause(member, false);
  }
}

// Whether nobody is left who trains, or comes.
bool Swarm::only_servers_left() const {
  if (!training::has_servers(experiment_)) return false;
  bool worked = false;
  for (const Member& member : members_) {
    if (!serves(member) && member.running()) return false;
    worked = worked || (!serves(member) && member.started());
  }
  return worked && !faults_->brings();
}

// Whether all that still run stand still, and will for ever or for nothing. With all-reduce they do as soon as
// one does.
bool Swarm::only_paused_left() const {
  bool finished = false, paused = false;
  for (const Member& member : members_) {
    if (member.running() && !member.paused && !all_at_once()) return false;
    paused = paused || (member.running() && member.paused);
    finished = finished || member.final_state == "finished";
  }
  return paused && (finished || !faults_->resumes());
}

// Whoever still looks for a run that all others have finished would look for ever.
void Swarm::send_latecomers_away() {
  bool finished = false, late = false;
  for (const Member& member : members_) {
    finished = finished || member.final_state == "finished";
    late = late || (member.running() && !serves(member));
    if (member.running() && (member.first_step || serves(member))) return late_since_.reset();
  }
  if (!finished || !late) return late_since_.reset();
  if (!late_since_) late_since_ = now();
  if (now() - *late_since_ < kLatePatience) return;  // it may have joined, and not have told so yet
  end_said_ = now();
  for (Member& member : members_) {
    if (!member.running()) continue;
    say(spdlog::level::warn, member.name + " comes too late: the run was over before it had joined");
    member.child->tell(training::kLeaveCommand);
  }
}

void Swarm::say(spdlog::level::level_enum level, const std::string& text) {
  table_.clear();
  spdlog::log(level, "{}", text);
}

// The reasons to end that lie outside of the peers.
void Swarm::stop_if_over() {
  if (!end_said_) {
    if (interrupts_.requested()) {
      say(spdlog::level::info, "ending the run; once more Ctrl-C kills it");
      end_all();
    } else if (only_paused_left() || only_servers_left()) {
      end_all();
    } else {
      send_latecomers_away();
    }
  } else if (now() - *end_said_ > kPatience) {
    for (Member& member : members_) {
      if (member.running()) member.child->signal(SIGKILL);
    }
  }
}

std::uint64_t Swarm::samples() const {
  std::uint64_t sum = 0;
  for (const Member& member : members_) sum += member.samples();
  return sum;
}

LiveTotal Swarm::total() const {
  LiveTotal total;
  total.seconds = seconds_between(launched_, now());
  total.epochs =
      static_cast<double>(samples()) / static_cast<double>(std::max<std::size_t>(data_.train.size(), 1));
  total.epochs_end = experiment_.epochs;
  for (const Member& member : members_)
    total.exchanges += member.former.exchanges.completed + member.report.exchanges.completed;
  total.accuracy = mean_accuracy_;

  if (!run_start_) return total;
  const double elapsed = seconds_between(*run_start_, now());
  const auto left = [&total](double seconds) {
    total.seconds_left = std::max(0.0, std::min(seconds, total.seconds_left.value_or(seconds)));
  };
  double rate = 0;  // samples per second, of all
  double slowest = 0;
  for (const Member& member : members_) {
    const PeerReport& report = member.report;
    if (!member.running() || report.state != "training") continue;
    rate += report.samples_per_second;
    if (!experiment_.steps || report.steps == 0 || report.seconds <= 0) continue;
    const auto to_go = static_cast<double>(*experiment_.steps) - static_cast<double>(report.steps);
    slowest = std::max(slowest, to_go * report.seconds / static_cast<double>(report.steps));
  }
  if (experiment_.epochs && rate > 0) {
    left((*experiment_.epochs - total.epochs) * static_cast<double>(data_.train.size()) / rate);
  }
  if (experiment_.steps && slowest > 0) left(slowest);
  if (experiment_.seconds) left(to_seconds(*experiment_.seconds) - elapsed);
  return total;
}

void Swarm::draw(bool last) {
  if (!last && now() < next_draw_) return;
  next_draw_ = now() + std::chrono::duration_cast<SteadyTime::duration>(
                           std::chrono::duration<double>(table_.seconds_between()));
  std::vector<LiveRow> rows;
  for (const Member& member : members_) {
    if (!member.started()) continue;
    const PeerReport& report = member.report;
    rows.push_back({member.name, member.paused ? "paused" : report.state, member.steps(),
                    report.samples_per_second, report.loss, member.exchanges(), report.distance});
  }
  table_.draw(rows, total());
}

// Until the last process has ended. An Error where the run never began.
Status Swarm::watch() {
  if (Status started = start(members_[beginner_]); !started) return started;
  while (anyone_running()) {
    wait_for_events();
    const bool had_begun = begun_.has_value();
    for (Member& member : members_) {
      hear(member);
      reap(member);
    }
    if (!begun_ && !anyone_running()) break;
    if (begun_ && !had_begun && anyone_running() && !interrupts_.requested()) {
      if (Status started = start_joiners(); !started) return started;
    }
    inflict_due_faults();
    stop_if_over();
    close_snapshots();
    take_looks();
    draw(false);
  }
  close_snapshots();
  if (mean_watch_) mean_watch_->finish();
  take_looks();
  draw(true);
  return Done{};
}

training::Summary Swarm::summarize(const Judgement& judgement) {
  training::Summary summary;
  summary.name = experiment_.name;
  summary.mode = "swarm";
  summary.seed = experiment_.seed;
  summary.model = experiment_.model;
  summary.parameters = plan_.layout.parameter_count();
  summary.data = data_.name;
  summary.peers = experiment_.peers;
  summary.topology = experiment_.topology;
  summary.rule = experiment_.rule;
  summary.payload = experiment_.payload;
  if (const auto topology = topologies::Topology::parse(experiment_.topology); topology && !all_at_once())
    summary.spectral_gap = topologies::spectral_gap(topology->among(experiment_.peers));

  const SteadyTime start = run_start_.value_or(launched_);
  SteadyTime end = std::max(start, formers_end_.value_or(start));
  for (const Member& member : members_) {
    if (member.training_end) end = std::max(end, *member.training_end);
  }
  summary.seconds = seconds_between(start, end);
  summary.samples = samples();
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(summary.samples) / summary.seconds : 0;
  summary.seconds_to_target = seconds_to_target_;

  if (judgement.mean_score) {
    summary.accuracy = judgement.mean_score->accuracy;
    summary.loss = judgement.mean_score->loss;
  }
  summary.consensus_distance = judgement.consensus_distance;

  std::size_t judged = 0;
  std::vector<std::string> before_settling, of_servers;
  for (const Member& member : members_) {
    if (!member.started()) continue;
    const std::optional<Score>& score = judgement.replicas[judged++];
    training::PeerRecord record;
    record.name = member.name;
    record.device = member.report.device;
    record.steps = member.steps();
    record.samples = member.samples();
    if (score) record.accuracy = score->accuracy;
    record.exchanges = member.exchanges();
    record.serves = serves(member);
    record.slow = record.serves ? 1 : training::slowness(experiment_, member.number);
    record.state = member.final_state;
    summary.per_peer.push_back(record);

    summary.exchanges += member.former.exchanges;
    summary.exchanges += member.report.exchanges;
    summary.bytes_sent += member.former.bytes_sent + member.report.bytes_sent;
    summary.staleness += member.former.staleness;
    summary.staleness += member.report.staleness;
    if (score && member.final_state == "finished") {
      summary.accuracy_min = std::min(summary.accuracy_min.value_or(1), score->accuracy);
      summary.accuracy_max = std::max(summary.accuracy_max.value_or(0), score->accuracy);
    }
    if (member.path_before_settling.empty()) continue;
    (record.serves ? of_servers : before_settling).push_back(member.path_before_settling);
  }
  training::remove_files(of_servers);
  summary.consensus_distance_before_settling = consume_consensus(before_settling, plan_);
  summary.wall_seconds = seconds_between(launched_, now());
  return summary;
}

SwarmOutcome Swarm::results() {
  std::vector<ReplicaFile> files;
  std::vector<std::string> servers;
  for (const Member& member : members_) {
    if (!member.started()) continue;
    const bool trained = !serves(member);
    files.push_back({trained ? member.path : "", trained && member.final_state == "finished"});
    if (!trained && counts_at_looks(member)) servers.push_back(member.path);
  }
  const Judgement judgement = judge_replicas(files, servers, plan_, data_.test);
  SwarmOutcome outcome;
  outcome.summary = summarize(judgement);
  if (std::error_code ignored; all_at_once()) std::filesystem::remove_all(rendezvous(), ignored);
  Status written = Done{};
  if (!judgement.mean.empty()) {
    std::map<std::string, std::string> metadata =
        training::model_metadata({experiment_.model, experiment_.layers});
    metadata.insert({{"data", data_.name}, {"name", experiment_.name}});
    written = training::write_safetensors(folder_.file("model.safetensors"), plan_.layout, judgement.mean,
                                          metadata);
  }
  metrics_.close();
  if (written) written = folder_.write("timeline.jsonl", timelines());
  if (written) written = folder_.write("summary.json", training::to_json(*outcome.summary) + "\n");
  if (!written) return {kExitRunFailed, written.error().message, std::nullopt};
  if (judgement.mean.empty()) {
    return {kExitRunFailed,
            "no peer finished, so there is no model; the peers' logs are in " + folder_.path(), std::nullopt};
  }
  return outcome;
}

SwarmOutcome Swarm::run() {
  members_.resize(experiment_.peers + training::servers_in_all(experiment_));
  for (std::uint32_t i = 0; i < members_.size(); ++i) {
    members_[i].number = i;
    members_[i].name = training::peer_name(experiment_, i);
    members_[i].timeline = training::Timeline(training::Timeline::most_cells(experiment_.peers), 0.125);
  }
  const auto beginner = std::find_if(members_.begin(), members_.end(), [this](const Member& member) {
    return !joins_late(experiment_, member.number);
  });
  if (beginner == members_.end()) {
    return {kExitBadInput,
            "every peer has a fault join = true, so nobody begins the run; let one be there from the start",
            std::nullopt};
  }
  // Servers are there first: whoever trains begins with their parameters.
  beginner_ = training::has_servers(experiment_) ? experiment_.peers
                                                 : static_cast<std::size_t>(beginner - members_.begin());
  faults_.emplace(experiment_);
  if (Status prepared = prepare_folder(); !prepared)
    return {kExitRunFailed, prepared.error().message, std::nullopt};
  if (takes_looks()) mean_watch_ = std::make_unique<MeanWatch>(plan_, data_.test, experiment_.target_accuracy);
  if (Status watched = watch(); !watched) return {kExitRunFailed, watched.error().message, std::nullopt};

  if (!begun_ && interrupts_.requested()) {
    return {kExitInterrupted, "interrupted before the first peer listened", std::nullopt};
  }
  if (!begun_) {
    const Member& first = members_[beginner_];
    const std::string words = last_words(log_path(first));
    const int code = first.exit && first.exit->signal == 0 && first.exit->status != 0 ? first.exit->status
                                                                                      : kExitRunFailed;
    return {code,
            words.empty() ? "the first peer ended before it listened; its log is " + log_path(first) : words,
            std::nullopt};
  }
  return results();
}

}  // namespace

SwarmOutcome run_swarm(const Experiment& experiment, const models::Plan& plan, const datasets::DataPair& data,
                       const SwarmOptions& options, const training::RunFolder& folder) {
  return Swarm(experiment, plan, data, options, folder).run();
}

}  // namespace starling::lab

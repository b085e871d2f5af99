#include "lab/swarm/launcher.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "lab/recurrence.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::lab {
namespace {

// Ends a run that has no other end than a target that it does not reach.
constexpr double kMostEpochs = 100;
// Addresses for a joiner: the first that answers is enough.
constexpr std::size_t kJoinAddresses = 8;
// With all-reduce, how long peers wait for each other beyond the pauses of the experiment.
constexpr std::chrono::minutes kStepPatience{10};

}  // namespace

std::string last_message(const std::string& log) {
  std::ifstream lines(log);
  std::string line, last;
  while (std::getline(lines, line)) {
    if (!line.empty()) last = line;
  }
  const std::string prefix = "starling peer: ";
  return last.starts_with(prefix) ? last.substr(prefix.size()) : last;
}

Launcher::Launcher(SwarmRun& run, Timelines& timelines, Interrupts& interrupts,
                   std::vector<std::uint32_t> snapshots)
    : run_(run),
      timelines_(timelines),
      interrupts_(interrupts),
      snapshots_(std::move(snapshots)),
      told_(run.experiment) {
  if (run.ends_at_target_only()) told_.end.epochs = kMostEpochs;
}

Status Launcher::choose_beginner() {
  const auto early =
      std::find_if(run_.members.begin(), run_.members.end(),
                   [this](const SwarmMember& member) { return !joins_late(run_.experiment, member.number); });
  if (early == run_.members.end())
    return Error{"every peer has a fault join = true, so none begins the run; leave one of them without it"};
  // A parameter server comes first: peers that train start with its parameters.
  beginner_ = training::has_servers(run_.experiment) ? run_.experiment.peers : early->number;
  return Done{};
}

Status Launcher::make_rendezvous() const {
  remove_rendezvous();  // addresses of an earlier run
  std::error_code problem;
  if (std::filesystem::create_directory(rendezvous(), problem); problem)
    return Error{"cannot create the folder " + rendezvous() + ": " + problem.message()};
  return Done{};
}

void Launcher::remove_rendezvous() const {
  std::error_code ignored;
  std::filesystem::remove_all(rendezvous(), ignored);
}

std::vector<std::string> Launcher::arguments_by_all_reduce(PeerPlace place) const {
  place.rendezvous = rendezvous();
  place.patience = kStepPatience;
  for (const training::Fault& fault : run_.experiment.faults) {
    if (fault.kind == training::Fault::Kind::pause && fault.to) place.patience += *fault.to - fault.from;
  }
  return beginner_arguments(training::of_peer(told_, place.number), place);
}

std::string Launcher::page_of(const SwarmMember& member) const {
  const auto& http = run_.options.http;
  if (!http) return "";
  return to_string(Address{http->host, member.number == 0 ? http->port : std::uint16_t{0}});
}

Result<std::vector<std::string>> Launcher::arguments_of(const SwarmMember& member) const {
  const bool begins = !member.started() && !joins_late(run_.experiment, member.number);
  const PeerPlace place{.number = member.number,
                        .out = run_.folder.path(),
                        .control_fd = ChildProcess::kControlFd,
                        .snapshots = snapshots_[member.number],
                        .expected = begins ? beginning_together(run_.experiment) : 0,
                        .key = run_.options.key,
                        .http = page_of(member),
                        .late = from_seconds(run_.seconds().value_or(0))};
  if (run_.by_all_reduce()) return arguments_by_all_reduce(place);
  const training::Experiment told = training::of_peer(told_, member.number);
  if (member.number == beginner().number && !member.started()) return beginner_arguments(told, place);
  std::vector<std::string> addresses;
  for (const SwarmMember& other : run_.members) {
    if (other.running() && !other.life.address.empty() && addresses.size() < kJoinAddresses)
      addresses.push_back(other.life.address);
  }
  if (addresses.empty()) return Error{"cannot start " + member.name + ": no peer is left that it could join"};
  return joiner_arguments(told, place, addresses);
}

Status Launcher::start(SwarmMember& member) {
  const auto arguments = arguments_of(member);
  if (!arguments) return arguments.error();
  // The replica of an earlier run must not be evaluated as this one's.
  std::error_code ignored;
  std::filesystem::remove(run_.folder.file(member.name + ".safetensors"), ignored);
  ++member.lives;
  Result<ChildProcess> child = ChildProcess::start(run_.options.program, *arguments, run_.log_path(member));
  if (!child) return child.error();
  interrupts_.add(child->pid());
  if (const auto at = run_.seconds()) timelines_.add_absence(member.number, *at);
  member.life = {.child = std::move(*child)};
  return Done{};
}

Status Launcher::start_joiners() {
  for (SwarmMember& member : run_.members) {
    if (member.started() || joins_late(run_.experiment, member.number)) continue;
    if (Status started = start(member); !started) return started;
  }
  return Done{};
}

void Launcher::start_again(SwarmMember& member) {
  if (run_.anyone_finished() || run_.end_sent) return;
  const Life last = std::exchange(member.life, {});
  member.former.add(last.report);
  if (last.training_end)
    run_.formers_end = std::max(run_.formers_end.value_or(*last.training_end), *last.training_end);
  for (SwarmMember& other : run_.members)
    other.life.links.erase(member.number);  // its address will be another
  if (Status started = start(member); !started) {
    member.life.final_state = last.final_state;
    member.life.state = last.state;
    run_.warn(started.error().message);
  }
}

void Launcher::pause(SwarmMember& member) {
  if (member.life.pauses++ > 0) return;
  if (const auto at = run_.seconds()) timelines_.pause(member.number, *at);
  member.life.child->signal(SIGSTOP);
}

void Launcher::end_pause(SwarmMember& member) {
  if (member.life.pauses > 1)
    --member.life.pauses;
  else
    resume(member);
}

void Launcher::resume(SwarmMember& member) {
  member.life.pauses = 0;
  if (const auto at = run_.seconds()) timelines_.resume(member.number, *at);
  member.life.child->signal(SIGCONT);
}

void Launcher::crash(SwarmMember& member) {
  member.life.departing = true;
  member.life.child->signal(SIGKILL);
}

void Launcher::leave(SwarmMember& member) {
  member.life.departing = true;
  member.life.child->signal(SIGTERM);
  if (member.life.paused()) resume(member);
}

void Launcher::end_all() {
  if (!run_.end_sent) run_.end_sent = SwarmRun::now();
  for (SwarmMember& member : run_.members) {
    if (!member.running()) continue;
    member.life.child->tell(training::kEndCommand);
    if (member.life.paused()) resume(member);
  }
}

void Launcher::kill_all() {
  for (SwarmMember& member : run_.members) {
    if (member.running()) member.life.child->signal(SIGKILL);
  }
}

void Launcher::record_exit(SwarmMember& member, const ChildProcess::Exit& exit) {
  Life& life = member.life;
  life.exit = exit;
  interrupts_.remove(life.child->pid());
  const auto [status, signal] = exit;
  const bool orderly = status == 0 && signal == 0;
  if (orderly && (life.state == ProcessState::finished || life.state == ProcessState::left)) {
    life.final_state = life.state;
    return;
  }
  life.state = ProcessState::crashed;
  life.final_state = ProcessState::crashed;
  const std::string log = run_.log_path(member);
  const std::string how =
      signal != 0 ? "signal " + std::to_string(signal) : "exit code " + std::to_string(status);
  const std::string message = signal != 0 ? "" : last_message(log);
  run_.warn(member.name + " ended with " + how + (message.empty() ? "" : ": " + message) + " (" + log + ")");
}

// ---- faults ----

using Act = ProcessFault::Act;

FaultInjector::FaultInjector(SwarmRun& run, Launcher& launcher)
    : run_(run),
      launcher_(launcher),
      faults_(run.experiment),
      links_change_(std::any_of(
          run.experiment.faults.begin(), run.experiment.faults.end(),
          [](const training::Fault& fault) { return fault.kind == training::Fault::Kind::link; })) {}

Duration FaultInjector::until_next(Duration limit) const {
  const auto next = faults_.next();
  const auto at = run_.seconds();
  if (!next || !at) return limit;
  return std::clamp(*next - from_seconds(*at), Duration{0}, limit);
}

void FaultInjector::inflict_due() {
  const auto at = run_.seconds();
  if (!at || run_.end_sent) return;
  while (const auto fault = faults_.take(from_seconds(*at))) inflict(*fault);
}

void FaultInjector::inflict(const ProcessFault& fault) {
  SwarmMember& member = run_.members[fault.peer];
  switch (fault.act) {
    case Act::links:
      return send_links();
    case Act::start: {
      if (member.started()) return;
      if (Status started = launcher_.start(member); !started) run_.warn(started.error().message);
      return;
    }
    case Act::back:
      if (!member.started()) return;
      member.life.returns = member.life.departing;
      if (!member.running()) launcher_.start_again(member);
      return;
    case Act::pause:
    case Act::resume:
    case Act::crash:
    case Act::leave:
      if (member.running()) inflict_on_running(member, fault.act);
      return;
  }
}

void FaultInjector::inflict_on_running(SwarmMember& member, Act act) {
  if (act == Act::pause) launcher_.pause(member);
  if (act == Act::resume) launcher_.end_pause(member);
  if (act == Act::crash) launcher_.crash(member);
  if (act == Act::leave) launcher_.leave(member);
}

void FaultInjector::send_links() {
  const auto seconds = run_.seconds();
  if (!links_change_ || !seconds) return;
  const training::LinkChange usual{run_.experiment.network.latency, run_.experiment.network.bandwidth};
  for (SwarmMember& from : run_.members) {
    if (!from.running()) continue;
    for (const SwarmMember& to : run_.members) {
      if (to.number == from.number || to.life.address.empty()) continue;
      const training::LinkChange shape =
          training::link_at(run_.experiment, from.number, to.number, from_seconds(*seconds));
      training::LinkChange& sent = from.life.links.try_emplace(to.number, usual).first->second;
      if (shape == sent) continue;
      const Result<Address> address = Address::parse(to.life.address);
      if (!address) continue;
      sent = shape;
      from.life.child->tell(training::format_link_order(
          {*address, shape.latency.value_or(Duration{0}), shape.bandwidth.value_or(0), shape.drop}));
    }
  }
}

}  // namespace starling::lab

// What the parts of a swarm's launcher share: the experiment, the members, the times from which everything
// counts, and the outputs. All of it is used by one thread. A member is one peer as the launcher sees it: its
// current process, and what its former processes reported. A peer that leaves or crashes and comes back has
// several processes, one after the other, under one name.
#pragma once

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "lab/swarm/child_process.h"
#include "lab/swarm/live_table.h"
#include "lab/swarm/swarm_options.h"
#include "models/spec.h"
#include "training/runs/experiment/control.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/record.h"

namespace starling::lab {

using SteadyTime = std::chrono::steady_clock::time_point;

inline double seconds_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration<double>(to - from).count();
}

// One process of a peer.
struct Life {
  std::optional<ChildProcess> child{};
  std::optional<ChildProcess::Exit> exit{};
  training::PeerReport report{};  // the latest
  ProcessState state = ProcessState::starting;
  std::optional<ProcessState> final_state{};  // finished, left or crashed, after the process has ended
  std::string address{};                      // empty until it listens
  std::map<std::uint32_t, training::LinkChange> links{};  // to other members, as last sent to the process
  std::string path{}, path_before_settling{};             // files of its replica
  std::optional<SteadyTime> first_step{};
  std::optional<SteadyTime> training_end{};  // until `trained`: the latest report of a step
  bool trained = false;                      // training_end is final
  std::uint64_t snapshot = 0;                // number of the latest
  std::uint32_t pauses = 0;                  // that cover now
  bool departing = false;                    // a fault ends this process
  bool stopped = false;                      // it ran when the user ended the run
  bool returns = false;                      // the next process starts when this one has ended

  bool running() const { return child.has_value() && !exit; }
  bool paused() const { return pauses > 0; }
};

// Sums over the processes of a peer.
struct Counters {
  std::uint64_t steps = 0, samples = 0, answered = 0, bytes_sent = 0;
  training::ExchangeTotals exchanges{};
  training::Staleness staleness{};

  void add(const training::PeerReport& report) {
    steps += report.steps;
    samples += report.samples;
    answered += report.answered;
    bytes_sent += report.bytes_sent;
    exchanges += report.exchanges;
    staleness += report.staleness;
  }
};

struct SwarmMember {
  std::uint32_t number = 0;
  std::string name;
  std::uint32_t lives = 0;  // processes so far
  Counters former{};        // of the processes before the current one
  Life life{};

  bool started() const { return lives > 0; }
  bool running() const { return life.running(); }
  bool finished() const { return life.final_state == ProcessState::finished; }
  // Over all its processes.
  std::uint64_t steps() const { return former.steps + life.report.steps; }
  std::uint64_t samples() const { return former.samples + life.report.samples; }
  std::uint64_t bytes_sent() const { return former.bytes_sent + life.report.bytes_sent; }
  std::uint64_t exchanges_begun() const {
    return former.exchanges.completed + life.report.exchanges.completed;
  }
  std::uint64_t exchanges() const { return exchanges_begun() + former.answered + life.report.answered; }
};

struct SwarmRun {
  SwarmRun(const training::Experiment& its_experiment, const models::Plan& its_plan,
           const datasets::DataPair& its_data, const SwarmOptions& its_options,
           const training::RunFolder& its_folder)
      : experiment(its_experiment),
        plan(its_plan),
        data(its_data),
        options(its_options),
        folder(its_folder),
        members(experiment.peers + training::servers_in_all(experiment)),
        table(options.tell) {
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      members[i].number = i;
      members[i].name = training::peer_name(experiment, i);
    }
  }

  const training::Experiment& experiment;
  const models::Plan& plan;
  const datasets::DataPair& data;
  const SwarmOptions& options;
  const training::RunFolder& folder;

  const SteadyTime launched = now();
  std::optional<SteadyTime> first_step{};   // of any peer: the times of faults and results count from here
  std::optional<SteadyTime> end_sent{};     // when all members were asked to end
  bool interrupted = false;                 // the user ended the run early
  std::optional<SteadyTime> formers_end{};  // the latest end of training among processes with a successor
  std::vector<SwarmMember> members{};       // by number: the peers, then the parameter servers
  std::ofstream metrics{};
  LiveTable table;

  static SteadyTime now() { return std::chrono::steady_clock::now(); }
  // Seconds since the first step; nullopt before it.
  std::optional<double> seconds() const {
    return first_step ? std::optional(seconds_between(*first_step, now())) : std::nullopt;
  }

  bool serves(const SwarmMember& member) const { return member.number >= experiment.peers; }
  bool by_all_reduce() const { return traits(experiment.gossip.rule).all_at_once(); }
  // The target is the only end that the experiment gives the run.
  bool ends_at_target_only() const {
    return training::has_target(experiment.end) && !experiment.end.epochs && !experiment.end.steps &&
           !experiment.end.seconds;
  }
  bool anyone_running() const { return std::ranges::any_of(members, &SwarmMember::running); }
  bool anyone_finished() const { return std::ranges::any_of(members, &SwarmMember::finished); }
  std::uint64_t samples() const {  // consumed by all members
    std::uint64_t sum = 0;
    for (const SwarmMember& member : members) sum += member.samples();
    return sum;
  }

  std::string log_path(const SwarmMember& member) const {
    const std::string life = member.lives > 1 ? "." + std::to_string(member.lives) : "";
    return folder.file(member.name + life + ".log");
  }
  // Logs above the live table.
  void warn(const std::string& text) {
    table.clear();
    spdlog::warn("{}", text);
  }
  void inform(const std::string& text) {
    table.clear();
    spdlog::info("{}", text);
  }
};

}  // namespace starling::lab

// What the parts of a swarm's launcher share: the experiment, the members, the times from which everything
// counts, and the outputs. All of it is used by one thread.
#pragma once

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "lab/swarm/live_table.h"
#include "lab/swarm/member.h"
#include "lab/swarm/swarm_options.h"
#include "models/spec.h"
#include "training/experiment/experiment.h"
#include "training/records/record.h"

namespace starling::lab {

inline double seconds_between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration<double>(to - from).count();
}

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
  std::optional<SteadyTime> formers_end{};  // the latest end of training among processes with a successor
  std::vector<Member> members{};            // by number: the peers, then the parameter servers
  std::ofstream metrics{};
  LiveTable table;

  static SteadyTime now() { return std::chrono::steady_clock::now(); }
  // Seconds since the first step; nullopt before it.
  std::optional<double> seconds() const {
    return first_step ? std::optional(seconds_between(*first_step, now())) : std::nullopt;
  }

  bool serves(const Member& member) const { return member.number >= experiment.peers; }
  bool by_all_reduce() const { return traits(experiment.gossip.rule).all_at_once(); }
  // The target is the only end that the experiment gives the run.
  bool ends_at_target_only() const {
    return experiment.end.target_accuracy && !experiment.end.epochs && !experiment.end.steps &&
           !experiment.end.seconds;
  }
  bool anyone_running() const { return std::ranges::any_of(members, &Member::running); }
  bool anyone_finished() const { return std::ranges::any_of(members, &Member::finished); }
  std::uint64_t samples() const {  // consumed by all members
    std::uint64_t sum = 0;
    for (const Member& member : members) sum += member.samples();
    return sum;
  }

  std::string log_path(const Member& member) const {
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

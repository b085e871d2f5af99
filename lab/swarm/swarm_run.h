// What the parts of a swarm's launcher share: the experiment, the members, the times from which everything
// counts, and the outputs. All of it is used by one thread.
#pragma once

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
           const training::RunFolder& its_folder);

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
  std::optional<double> seconds() const;

  bool serves(const Member& member) const { return member.number >= experiment.peers; }
  bool by_all_reduce() const { return traits(experiment.rule).all_at_once(); }
  // The target is the only end that the experiment gives the run.
  bool ends_at_target_only() const;
  bool anyone_running() const;
  bool anyone_finished() const;
  std::uint64_t samples() const;  // consumed by all members

  std::string log_path(const Member& member) const;
  // Logs above the live table.
  void warn(const std::string& text);
  void inform(const std::string& text);
};

}  // namespace starling::lab

#include "lab/swarm/swarm_run.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace starling::lab {

SwarmRun::SwarmRun(const training::Experiment& its_experiment, const models::Plan& its_plan,
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

std::optional<double> SwarmRun::seconds() const {
  return first_step ? std::optional(seconds_between(*first_step, now())) : std::nullopt;
}

bool SwarmRun::ends_at_target_only() const {
  return experiment.target_accuracy && !experiment.epochs && !experiment.steps && !experiment.seconds;
}

bool SwarmRun::anyone_running() const {
  return std::any_of(members.begin(), members.end(), [](const Member& member) { return member.running(); });
}

bool SwarmRun::anyone_finished() const {
  return std::any_of(members.begin(), members.end(), [](const Member& member) { return member.finished(); });
}

std::uint64_t SwarmRun::samples() const {
  std::uint64_t sum = 0;
  for (const Member& member : members) sum += member.samples();
  return sum;
}

std::string SwarmRun::log_path(const Member& member) const {
  const std::string life = member.lives > 1 ? "." + std::to_string(member.lives) : "";
  return folder.file(member.name + life + ".log");
}

void SwarmRun::warn(const std::string& text) {
  table.clear();
  spdlog::warn("{}", text);
}

void SwarmRun::inform(const std::string& text) {
  table.clear();
  spdlog::info("{}", text);
}

}  // namespace starling::lab

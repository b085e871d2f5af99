#include "training/experiment/experiment.h"

namespace starling::training {

double default_sgd_rate(std::uint32_t workers) {
  constexpr double kRatePerReplica = 0.05;  // of all workers on a replica together
  return kRatePerReplica / workers;
}

double resolved_learning_rate(const Experiment& experiment) {
  if (experiment.learning_rate) return *experiment.learning_rate;
  return experiment.optimizer == "adamw" ? 0.001 : default_sgd_rate(experiment.workers);
}

std::string join_devices(const std::vector<std::string>& devices) {
  std::string text;
  for (const std::string& device : devices) text += (text.empty() ? "" : ",") + device;
  return text;
}

bool has_servers(const Experiment& experiment) {
  return traits(experiment.rule).has_servers();
}

std::uint32_t servers_in_all(const Experiment& experiment) {
  return has_servers(experiment) ? experiment.servers + experiment.racks : 0;
}

std::string peer_name(const Experiment& experiment, std::uint32_t number) {
  if (number < experiment.peers) return "p" + std::to_string(number);
  return "s" + std::to_string(number - experiment.peers);
}

Pace resolved_every(const Experiment& experiment) {
  return experiment.every.value_or(traits(experiment.rule).pace);
}

std::uint32_t resolved_looks(const Experiment& experiment) {
  return experiment.looks.value_or(20);
}

}  // namespace starling::training

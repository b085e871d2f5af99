#include "training/runs/experiment/experiment.h"

#include <algorithm>
#include <numeric>

namespace starling::training {

double default_sgd_rate(std::uint32_t workers) {
  constexpr double kRatePerReplica = 0.05;  // of all workers on a replica together
  return kRatePerReplica / workers;
}

double resolved_learning_rate(const Experiment& experiment) {
  if (experiment.optimizer.learning_rate) return *experiment.optimizer.learning_rate;
  return experiment.optimizer.name == "adamw" ? 0.001 : default_sgd_rate(experiment.training.workers);
}

bool has_servers(const Experiment& experiment) { return traits(experiment.gossip.rule).has_servers(); }

std::uint32_t servers_in_all(const Experiment& experiment) {
  return has_servers(experiment) ? experiment.gossip.servers + experiment.gossip.racks : 0;
}

std::string peer_name(const Experiment& experiment, std::uint32_t number) {
  if (number < experiment.peers) return "p" + std::to_string(number);
  return "s" + std::to_string(number - experiment.peers);
}

Pace resolved_every(const Experiment& experiment) {
  return experiment.gossip.every.value_or(traits(experiment.gossip.rule).pace);
}

bool reaches_target(const EndSettings& end, double accuracy, double loss) {
  return (end.target_accuracy && accuracy >= *end.target_accuracy) ||
         (end.target_loss && loss <= *end.target_loss);
}

bool is_near_target(const EndSettings& end, double accuracy, double loss) {
  constexpr double kOnePoint = 0.01, kFivePercent = 1.05;
  return (end.target_accuracy && accuracy >= *end.target_accuracy - kOnePoint) ||
         (end.target_loss && loss <= kFivePercent * *end.target_loss);
}

double resolved_outer_momentum(const Experiment& experiment) {
  return experiment.gossip.outer_momentum.value_or(traits(experiment.gossip.rule).outer_momentum);
}

double resolved_consensus_rate(const Experiment& experiment) {
  const GossipSettings& gossip = experiment.gossip;
  return gossip.consensus_rate.value_or(default_consensus_rate(gossip.payload, gossip.top_k));
}

bool has_stages(const Experiment& experiment) {
  return experiment.training.split == Split::stages && experiment.training.devices.size() > 1;
}

bool has_divided_layers(const Experiment& experiment) {
  return experiment.training.split == Split::layers && experiment.training.devices.size() > 1;
}

std::uint32_t resolved_micro_batches(const Experiment& experiment, std::size_t stages) {
  if (experiment.pipeline.micro_batches > 0) return experiment.pipeline.micro_batches;
  const PipelineTraits& schedule = pipeline_traits(experiment.pipeline.schedule);
  if (!schedule.splits || !schedule.flushes) return 1;
  int shared = 1;  // among the replicas of each stage
  for (const int replicas : experiment.pipeline.stage_replicas) shared = std::lcm(shared, replicas);
  const auto round = static_cast<std::uint32_t>(shared);
  auto count = static_cast<std::uint32_t>(std::min<std::size_t>(4 * stages, experiment.training.batch_size));
  while (count > round && (experiment.training.batch_size % count != 0 || count % round != 0)) --count;
  return std::max(count, round);
}

std::uint32_t resolved_looks(const Experiment& experiment) { return experiment.looks.value_or(20); }

LinkChange link_at(const Experiment& experiment, std::uint32_t from, std::uint32_t to, Duration at) {
  LinkChange all;
  for (const Fault& fault : experiment.faults) {
    const bool concerns = fault.kind == Fault::Kind::link && fault.concerns_link(from, to);
    if (!concerns || at < fault.from || (fault.to && at >= *fault.to)) continue;
    all = worse(all, fault.link);
  }
  if (!all.latency) all.latency = experiment.network.latency;
  if (!all.bandwidth) all.bandwidth = experiment.network.bandwidth;
  return all;
}

double slowness(const Experiment& experiment, std::uint32_t peer) {
  double factor = 1;
  for (const Fault& fault : experiment.faults) {
    if (fault.concerns(peer) && fault.kind == Fault::Kind::slow)
      factor = std::max(factor, fault.factor.median());
  }
  return factor;
}

}  // namespace starling::training

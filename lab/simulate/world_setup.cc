#include "lab/simulate/world_setup.h"

#include <utility>

#include "gossip/rules.h"
#include "lab/simulate/incidents.h"
#include "training/experiment/settings.h"
#include "training/replica/manifest.h"
#include "training/replica/recipe.h"

namespace starling::lab {
namespace {

using training::Experiment;

void add_machines(const Experiment& experiment, WorldOptions& options) {
  for (std::uint32_t i = 0; i < experiment.peers; ++i) {
    const Experiment own = training::of_peer(experiment, i);
    MachineOptions machine;
    machine.name = training::peer_name(experiment, i);
    machine.workers = own.workers;
    machine.step = virtual_step(own);
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

void set_network(const Experiment& experiment, NetworkOptions& network) {
  if (experiment.latency) network.latency = *experiment.latency;
  if (experiment.bandwidth) network.bandwidth = *experiment.bandwidth;
  const double port = experiment.port.value_or(network.bandwidth);
  if (port != training::kUnlimited) network.port = port;
}

}  // namespace

Result<WorldOptions> world_of(const VirtualRun& run) {
  const Experiment& experiment = run.experiment();
  const models::Layout& layout = run.plan().layout;
  WorldOptions options;
  options.seed = experiment.seed;
  set_network(experiment, options.network);
  options.arena_floats = layout.arena_size();
  add_machines(experiment, options);
  add_faults(experiment, options);
  options.manifest = training::manifest_of<wire::Manifest>(experiment, layout, run.data().name);
  auto rules = gossip::rules_from(options.manifest, run.epoch_samples());
  if (!rules) return rules.error();
  options.rules = std::move(*rules);
  auto mix = training::mix_options(experiment);
  if (!mix) return mix.error();
  options.mix = *mix;
  if (const auto cells = training::chunk_cells(experiment, mix->cell_floats)) options.chunk_cells = *cells;
  if (experiment.window > 0) options.window = experiment.window;
  return options;
}

}  // namespace starling::lab

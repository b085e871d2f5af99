#include "node/work/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <utility>

#include "base/text.h"
#include "kernels/by_name/backends.h"
#include "node/work/free_memory.h"
#include "training/learning/memory.h"
#include "training/learning/recipe.h"
#include "training/learning/split.h"
#include "training/learning/stage_records.h"
#include "training/runs/records/checkpoint.h"

namespace starling::node {
namespace {

using Backends = std::vector<std::unique_ptr<kernels::Backend>>;

// Whether several devices hold one replica together.
bool is_divided(const training::Experiment& experiment) {
  return training::has_stages(experiment) || training::has_divided_layers(experiment);
}

// Throws DeviceError, for example if the device has too little memory.
Result<std::unique_ptr<Replica>> build(const training::Settled& experiment, datasets::DataPair data,
                                       models::Plan plan, Backends backends, Backends parts,
                                       std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                       std::uint64_t own_order) {
  auto replica =
      std::make_unique<Replica>(std::move(data), std::move(plan), std::move(backends), std::move(parts));
  replica->precision = experiment.training.precision;
  if (experiment.training.devices.size() > 1) {
    replica->several_devices = training::joined(experiment.training.devices, ",");
    const std::string text = training::split_text(experiment, replica->plan);
    replica->described.split = experiment.why.empty() ? text : "auto: " + text + experiment.why;
  }
  if (training::has_stages(experiment))
    replica->described.pipeline = training::describe_stages(experiment, replica->plan);
  std::vector<const kernels::Backend*> devices, of_parts;
  for (const auto& part : replica->parts) of_parts.push_back(part.get());
  for (const auto& backend : replica->backends) {
    auto workers = training::make_workers(experiment, replica->plan, *backend, replica->data.trained(),
                                          slot ? slot->first : own_order, slot ? slot->second : 0,
                                          static_cast<std::uint32_t>(devices.size()), of_parts);
    if (!workers) return workers.error();
    for (auto& worker : *workers) replica->workers.push_back(std::move(worker));
    devices.push_back(backend.get());
    if (is_divided(experiment)) break;  // its threads share the first
  }
  replica->clock = replica->workers.front()->stage_clock();
  if (devices.size() > 1) replica->group = std::make_unique<training::DeviceGroup>(replica->arena, devices);
  return replica;
}

std::string size_text(std::size_t bytes) {
  const auto number = static_cast<double>(bytes);
  return number < 1e9 ? fmt::format("{:.1f} MB", number / 1e6) : fmt::format("{:.1f} GB", number / 1e9);
}

// "HAS, and training lenet ... needs about 3.1 GB; a smaller batch or fewer workers need less".
std::string too_large(const std::string& has, const training::Experiment& experiment, std::size_t need) {
  std::vector<std::string> remedies{"a smaller batch"};
  if (experiment.training.workers > 1) remedies.emplace_back("fewer workers");
  if (experiment.training.recompute == training::Recomputation::never) remedies.emplace_back("--recompute");
  return fmt::format("{}, and training {} with batches of {} by {} worker{} needs about {}; {} need{} less",
                     has, experiment.model.name, experiment.training.batch_size, experiment.training.workers,
                     experiment.training.workers == 1 ? "" : "s", size_text(need), one_of(remedies),
                     remedies.size() == 1 ? "s" : "");
}

// The error if this machine has too little memory left for a replica that it computes itself.
Status check_memory(const training::Experiment& experiment, const models::Plan& plan,
                    const kernels::Backend& backend) {
  const auto free = backend.memory().on_host() ? free_memory() : std::nullopt;
  if (!free) return Done{};
  // Measuring takes time, so it is left out where even the upper bound fits.
  training::Experiment keeps_all = experiment;
  keeps_all.training.recompute = training::Recomputation::never;
  const std::size_t surely_fits = *free / training::kLeastMemoryMultiple;
  std::size_t need = training::least_training_memory(experiment, plan);
  if (need <= *free && training::least_training_memory(keeps_all, plan) > surely_fits)
    need = std::max(need, training::host_training_memory(experiment, plan, backend));
  if (need <= *free) return Done{};
  return Error{too_large("this machine has " + size_text(*free) + " of memory left", experiment, need)};
}

// For an allocation that failed although check_memory() accepted the plan.
Error out_of_memory(const training::Experiment& experiment, const models::Plan& plan) {
  const auto free = free_memory();
  return Error{too_large("an allocation failed: this machine has " +
                             (free ? size_text(*free) : "too little") + " of memory left",
                         experiment, training::least_training_memory(experiment, plan))};
}

// The error for the first device with too little memory for all of a replica; nullopt if there is none.
// REQUIRES: what was built of the replica is destroyed.
std::optional<std::string> whole_need(const training::Experiment& experiment, const models::Plan& plan,
                                      std::uint32_t place) {
  try {
    const auto backends = training::make_backends(experiment, place);
    if (!backends) return std::nullopt;
    for (const auto& backend : *backends) {
      const auto room = backend->memory().room();
      std::size_t need = training::device_memory(experiment, plan, *backend);
      if (backends->size() > 1)
        need += training::DeviceGroup::vectors(backend == backends->front()) * plan.layout.arena_size() *
                sizeof(float);
      if (!room || need <= room->free) continue;
      return too_large(fmt::format("{} has {} free of its {}", backend->name(), size_text(room->free),
                                   size_text(room->total)),
                       experiment, need);
    }
  } catch (const kernels::DeviceError&) {
  }
  return std::nullopt;
}

}  // namespace

std::string Replica::devices() const {
  if (is_outside()) return outside_device;
  if (!several_devices.empty()) return several_devices;
  return std::string(backend().name());
}

training::DeviceSharing Replica::sharing() const {
  training::DeviceSharing sharing = described;
  if (!sharing.pipeline || clock == nullptr) return sharing;
  const training::StageClock::Reading reading = clock->read();
  sharing.pipeline->measured = true;
  training::add_trace(reading.trace, reading.steps, *sharing.pipeline);
  return sharing;
}

Result<std::unique_ptr<Replica>> make_replica(const training::Experiment& wanted,
                                              Result<datasets::DataPair> data,
                                              std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                              std::uint64_t own_order, const PlanCheck& check) {
  if (!data) return data.error();
  const auto plan = training::make_plan(wanted, *data);
  if (!plan) return plan.error();
  if (check) {
    if (Status accepted = check(*plan, data->name); !accepted) return accepted.error();
  }
  const std::uint32_t place = slot ? slot->first : 0;
  auto backends = training::make_backends(wanted, place);
  if (!backends) return backends.error();
  training::Settled experiment{wanted};
  experiment.training.precision = training::precision_on(wanted, backends->front()->name());
  try {
    auto settled = training::settle_split(experiment, *plan, backends->front().get());
    if (!settled) return settled.error();
    experiment = std::move(*settled);
    Backends parts;
    if (is_divided(experiment) && !backends->front()->memory().on_host()) {
      auto processor = kernels::make_backend("cpu");
      if (!processor) return processor.error();
      parts = std::exchange(*backends, {});
      backends->push_back(std::move(*processor));
    }
    if (parts.empty()) {
      if (Status fits = check_memory(experiment, *plan, *backends->front()); !fits) return fits.error();
    }
    return build(experiment, std::move(*data), *plan, std::move(*backends), std::move(parts), slot,
                 own_order);
  } catch (const kernels::OutOfDeviceMemory& error) {
    if (is_divided(experiment)) return Error{error.what()};
    return Error{whole_need(experiment, *plan, place).value_or(error.what())};
  } catch (const kernels::DeviceError& error) {
    return Error{error.what()};
  } catch (const std::bad_alloc&) {
    return out_of_memory(experiment, *plan);
  }
}

std::map<std::string, std::string> replica_metadata(const Replica& replica,
                                                    const training::Experiment& experiment) {
  auto metadata = training::model_metadata({experiment.model.name, experiment.model.layers});
  metadata.insert(replica.about_data.begin(), replica.about_data.end());
  metadata.insert({{"data", replica.data.name}, {"seed", std::to_string(experiment.seed)}});
  return metadata;
}

Status write_replica(const std::string& path, const Replica& replica, const training::Experiment& experiment,
                     std::span<const float> parameters) {
  std::error_code ignored;  // the write below fails if this does
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  return training::write_safetensors(path, replica.plan.layout, parameters,
                                     replica_metadata(replica, experiment));
}

}  // namespace starling::node

#include "node/replica.h"

#include <utility>

#include "training/recipe.h"

namespace starling::node {
namespace {

// Throws DeviceError, among others where the device has not the room.
Result<std::unique_ptr<Replica>> build(const training::Experiment& experiment, datasets::DataPair data,
                                       models::Plan plan, std::vector<std::unique_ptr<kernels::Backend>> backends,
                                       std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                       std::uint64_t own_order) {
  auto replica = std::make_unique<Replica>(std::move(data), std::move(plan), std::move(backends));
  std::vector<const kernels::Backend*> devices;
  for (const auto& backend : replica->backends) {
    auto workers = training::make_workers(experiment, replica->plan, *backend, replica->data.train,
                                          slot ? slot->first : own_order, slot ? slot->second : 0,
                                          static_cast<std::uint32_t>(devices.size()));
    if (!workers) return workers.error();
    for (auto& worker : *workers) replica->workers.push_back(std::move(worker));
    devices.push_back(backend.get());
  }
  if (devices.size() > 1) replica->group = std::make_unique<training::DeviceGroup>(replica->arena, devices);
  return replica;
}

}  // namespace

std::string Replica::devices() const {
  std::string names;
  for (const auto& backend : backends) names += (names.empty() ? "" : ",") + std::string(backend->name());
  return names;
}

Result<std::unique_ptr<Replica>> make_replica(const training::Experiment& experiment,
                                              const std::string& data_root,
                                              std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                              std::uint64_t own_order) {
  auto data = datasets::load(experiment.data, data_root);
  if (!data) return data.error();
  return make_replica(experiment, std::move(*data), slot, own_order);
}

Result<std::unique_ptr<Replica>> make_replica(const training::Experiment& experiment, datasets::DataPair data,
                                              std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                              std::uint64_t own_order) {
  auto plan = training::make_plan(experiment, data.train);
  if (!plan) return plan.error();
  auto backends = training::make_backends(experiment, slot ? slot->first : 0);
  if (!backends) return backends.error();
  try {
    return build(experiment, std::move(data), std::move(*plan), std::move(*backends), slot, own_order);
  } catch (const kernels::DeviceError& error) {
    return Error{error.what()};
  }
}

}  // namespace starling::node

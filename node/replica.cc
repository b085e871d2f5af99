#include "node/replica.h"

#include <utility>

#include "training/recipe.h"

namespace starling::node {
namespace {

// Throws DeviceError, among others where the device has not the room.
Result<std::unique_ptr<Replica>> build(const training::Experiment& experiment, datasets::DataPair data,
                                       models::Plan plan, std::unique_ptr<kernels::Backend> backend,
                                       std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                       std::uint64_t own_order) {
  auto replica = std::make_unique<Replica>(std::move(data), std::move(plan), std::move(backend));
  auto workers = training::make_workers(experiment, replica->plan, *replica->backend, replica->data.train,
                                        slot ? slot->first : own_order, slot ? slot->second : 0);
  if (!workers) return workers.error();
  replica->workers = std::move(*workers);
  return replica;
}

}  // namespace

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
  auto backend = training::make_backend(experiment, slot ? slot->first : 0);
  if (!backend) return backend.error();
  try {
    return build(experiment, std::move(data), std::move(*plan), std::move(*backend), slot, own_order);
  } catch (const kernels::DeviceError& error) {
    return Error{error.what()};
  }
}

}  // namespace starling::node

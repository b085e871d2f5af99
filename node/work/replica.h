// What a peer holds of the run once it is prepared: data, model, arena and the workers that will train it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "models/arena.h"
#include "models/spec.h"
#include "training/experiment/experiment.h"
#include "training/replica/device_group.h"
#include "training/replica/worker.h"

namespace starling::node {

struct Replica {
  datasets::DataPair data;
  models::Plan plan;
  std::vector<std::unique_ptr<kernels::Backend>> backends;  // a device each
  models::Arena arena;                                      // what partners exchange with, on the first
  std::unique_ptr<training::DeviceGroup> group;             // of several devices; of one, null
  std::vector<std::unique_ptr<training::Worker>> workers;   // those of one device behind the other's

  // REQUIRES: a back end at least.
  Replica(datasets::DataPair d, models::Plan p, std::vector<std::unique_ptr<kernels::Backend>> b)
      : data(std::move(d)),
        plan(std::move(p)),
        backends(std::move(b)),
        arena(plan.layout.arena_size(), backend()) {}

  const kernels::Backend& backend() const { return *backends.front(); }
  std::string devices() const;  // "cuda:0,cuda:1"
};

// Loads the data and builds the model and the workers: seconds of work, on whatever thread. The arena is
// zero. `slot`: the shard (slot, slots); without one the whole set, in an order of `own_order`.
Result<std::unique_ptr<Replica>> make_replica(const training::Experiment& experiment,
                                              const std::string& data_root,
                                              std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                              std::uint64_t own_order);
// The same, of data that is there already.
Result<std::unique_ptr<Replica>> make_replica(const training::Experiment& experiment, datasets::DataPair data,
                                              std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                              std::uint64_t own_order);

// Writes these parameters of a replica (its arena's, at some moment), with its model, data and seed beside
// them; the folder is made where it is missing.
Status write_replica(const std::string& path, const Replica& replica, const training::Experiment& experiment,
                     std::span<const float> parameters);

}  // namespace starling::node

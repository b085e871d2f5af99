// The run in a prepared peer: the data, the model, the arena and the workers that train it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
#include "training/learning/data_facts.h"
#include "training/learning/device_group.h"
#include "training/learning/worker.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/pipeline_record.h"

namespace starling::node {

struct Replica {
  datasets::DataPair data;
  models::Plan plan;
  std::vector<std::unique_ptr<kernels::Backend>> backends;  // one per device with a replica of its own
  // Of the GPUs that hold one replica together: its parameters are on the host then, and its back end is the
  // processor's.
  std::vector<std::unique_ptr<kernels::Backend>> parts;
  models::Arena arena;                                     // on the first device; exchanges use it
  std::unique_ptr<training::DeviceGroup> group;            // null with one device
  std::vector<std::unique_ptr<training::Worker>> workers;  // ordered by device
  std::string precision{};                                 // of its products: "f32", "bf16", "tf32"
  std::string several_devices{};                           // "cpu:0,cpu:1"; empty with one device
  training::DeviceSharing described{};                     // sharing() without times
  std::shared_ptr<const training::StageClock> clock{};     // of its stages, or null
  training::Facts about_data{};                            // training::data_facts()
  std::uint64_t epoch_samples;                             // 0: unknown
  std::string outside_device{};  // a trainer's outside the process; then there are no data and no network

  // REQUIRES: at least one back end.
  Replica(datasets::DataPair d, models::Plan p, std::vector<std::unique_ptr<kernels::Backend>> b,
          std::vector<std::unique_ptr<kernels::Backend>> of_parts)
      : data(std::move(d)),
        plan(std::move(p)),
        backends(std::move(b)),
        parts(std::move(of_parts)),
        arena(plan.layout.arena_size(), backend()),
        about_data(training::data_facts(data)),
        epoch_samples(data.train.size()) {}
  // For a trainer outside the process: `layout` has its tensors, `memory` is shared with it.
  Replica(models::Layout layout, std::span<float> memory, std::string device, std::string data_name)
      : data{std::move(data_name), {}, {}},
        plan{{}, std::move(layout), {}, 0},
        arena(memory),
        precision("f32"),
        epoch_samples(0),
        outside_device(std::move(device)) {}

  bool is_outside() const { return !outside_device.empty(); }
  const kernels::Backend& backend() const { return *backends.front(); }  // REQUIRES: !is_outside()
  std::string devices() const;                                           // "cuda:0,cuda:1"
  // How the devices share the training, with what the stages have taken so far. Any thread may call.
  training::DeviceSharing sharing() const;
};

// Decides whether the plan, for the data set of this name, may be built.
using PlanCheck = std::function<Status(const models::Plan& plan, const std::string& data)>;

// Builds the model for the data and the workers: may take seconds, on any thread. The arena is zero. `data`:
// from datasets::load(). `slot`: the shard (slot, slots); without one the whole set, in an order drawn from
// `own_order`. `check`, which may be empty, and the memory that training needs come first: nothing large is
// allocated for a plan that is rejected. An allocation that fails is an Error.
Result<std::unique_ptr<Replica>> make_replica(const training::Experiment& experiment,
                                              Result<datasets::DataPair> data,
                                              std::optional<std::pair<std::uint32_t, std::uint32_t>> slot,
                                              std::uint64_t own_order, const PlanCheck& check = {});

// The model, data and seed of the replica, for the metadata of its file.
std::map<std::string, std::string> replica_metadata(const Replica& replica,
                                                    const training::Experiment& experiment);

// Writes these parameters of the replica with replica_metadata(). Creates the folder if it is missing.
Status write_replica(const std::string& path, const Replica& replica, const training::Experiment& experiment,
                     std::span<const float> parameters);

}  // namespace starling::node

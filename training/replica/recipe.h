// From an experiment to what trains: the same first parameters, shards and batches in the daemon and in the
// simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "models/spec.h"
#include "training/exchange/options.h"
#include "training/experiment/experiment.h"
#include "training/replica/worker.h"

namespace starling::training {

// The experiment's model for this data.
Result<models::Plan> make_plan(const Experiment& experiment, const datasets::Dataset& train);

// What computes the steps, on the experiment's device (or each of its devices, at least one) and in its
// precision: an Error where that cannot be. `place`: of several peers of one machine; auto gives each the next
// of its GPUs.
Result<std::vector<std::unique_ptr<kernels::Backend>>> make_backends(const Experiment& experiment,
                                                                     std::uint32_t place = 0);
// The same of the simulator, which computes on the processor, where the same seed gives the same run.
Result<std::unique_ptr<kernels::Backend>> make_host_backend(const Experiment& experiment);

// The experiment's optimizer.
Optimizer make_optimizer(const Experiment& experiment);

// What a beginner starts from: a function of the plan and the seed alone. arena_size() floats.
std::vector<float> first_parameters(const models::Plan& plan, std::uint64_t seed);
// The same, written straight into an arena as large.
void write_first_parameters(const models::Plan& plan, std::uint64_t seed, models::Arena& arena);

// What training begins with: of the experiment's file where it names one, else first_parameters(). The Error says which
// tensor does not fit.
Result<std::vector<float>> starting_parameters(const Experiment& experiment, const models::Plan& plan);
// The same, written into an arena as large; an Error wrote nothing.
Status write_starting_parameters(const Experiment& experiment, const models::Plan& plan, models::Arena& arena);

// The Hogwild workers of one peer on its shard of the training set: slot mod slots of the experiment's
// partition, or, with slots = 0, the whole set in an order that depends on `slot` alone. Batches, and how
// their images are cropped and flipped, are functions of the seed, the slot and the worker's number, which goes
// on from one of the peer's devices to the next. `plan`, `backend` and `train` outlive the workers. `engines`:
// make_shared_engines()', or null.
Result<std::vector<std::unique_ptr<Worker>>> make_workers(const Experiment& experiment,
                                                          const models::Plan& plan,
                                                          const kernels::Backend& backend,
                                                          const datasets::Dataset& train, std::uint64_t slot,
                                                          std::uint32_t slots, std::uint32_t device = 0,
                                                          std::shared_ptr<Engines> engines = nullptr);

// Engines that workers of several peers on one host may share; null where each needs its own, as its network draws
// what it drops. All arguments outlive them.
std::shared_ptr<Engines> make_shared_engines(const Experiment& experiment, const models::Plan& plan,
                                             const kernels::Backend& backend, const datasets::Dataset& train);

// What the experiment's gossip settings say. An Error where they do not go together.
Result<MixOptions> mix_options(const Experiment& experiment);

// How many whole cells a chunk is: the fewest that hold gossip.chunk; nullopt where that is auto.
std::optional<std::size_t> chunk_cells(const Experiment& experiment,
                                       std::size_t cell_floats = kDefaultCellFloats);

}  // namespace starling::training

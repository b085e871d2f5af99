// Makes the parts of training from an experiment, with the same first parameters, shards and batches in the
// daemon and in the simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "models/spec_text.h"
#include "training/learning/worker.h"
#include "training/mixing/mixer.h"
#include "training/runs/experiment/settings/settings.h"
#include "training/runs/records/safetensors.h"

namespace starling::training {

// The experiment's data, as the model of the file `resumed` has them, or else of the file that the run starts
// from (data_facts.h).
Result<datasets::DataPair> load_data(const Experiment& experiment, const std::string& data_root,
                                     const std::optional<std::string>& resumed = std::nullopt);

// Loads data.own_data, if the experiment has it, as `data` describe them: with their normalization, classes
// and tokenizer, and if `data` are divided into windows, into such windows. An Error if they do not fit.
Status add_own_data(const Experiment& experiment, const std::string& data_root, datasets::DataPair& data);

// The samples of the [[peer]]s' own data, by data.own_data; null: the run's. An Error as add_own_data()'s.
using OwnData = std::map<std::string, std::shared_ptr<const datasets::Dataset>>;
Result<OwnData> load_own_data(const Experiment& experiment, const std::string& data_root,
                              datasets::DataPair& data);

// The experiment's model for this data. A text is divided into samples of the model's context: by the caller,
// or here for both sets. An Error if the model does not fit the data.
Result<models::Plan> make_plan(const Experiment& experiment, const datasets::Dataset& train);
Result<models::Plan> make_plan(const Experiment& experiment, datasets::DataPair& data);
Result<models::Plan> make_plan(const models::ModelText& model, datasets::DataPair& data);

// The precision of products on this device, "cpu" or "cuda:0": the experiment's, but f32 instead of bf16 on a
// processor without matrix tiles, where bfloat16 may be much slower; a network for text then needs products
// of bfloat16.
std::string precision_on(const Experiment& experiment, std::string_view device);
// A sentence if a peer of the experiment computes in another precision on this machine than it is set to;
// else empty. `simulated`: all peers compute on the processor.
std::string warning_of_precision(const Experiment& experiment, bool simulated);

// The back ends for the experiment's device (or each of its devices, at least one) in the precision_on() it,
// or an Error. `place`: the number of this peer on its machine; auto gives each the next GPU.
Result<std::vector<std::unique_ptr<kernels::Backend>>> make_backends(const Experiment& experiment,
                                                                     std::uint32_t place = 0);
// The same for the simulator, which computes on the processor, so that a seed repeats a run.
Result<std::unique_ptr<kernels::Backend>> make_host_backend(const Experiment& experiment);

Optimizer make_optimizer(const Experiment& experiment);
// Steps in which the rate rises after the parameters were copied from another peer.
std::uint64_t warm_up_of_newcomers(const Experiment& experiment);

// The first parameters of a run: a function of only the plan and the seed. arena_size() floats.
std::vector<float> first_parameters(const models::Plan& plan, std::uint64_t seed);
// The same, written directly into an arena of that size.
void write_first_parameters(const models::Plan& plan, std::uint64_t seed, models::Arena& arena);

struct FirstParameters {
  std::vector<float> values;  // arena_size() floats
  std::string note;           // what was left out of the experiment's file; empty: nothing
};
// The parameters of the experiment's file if it names one, else first_parameters(). The Error names a tensor
// that does not fit.
Result<FirstParameters> starting_parameters(const Experiment& experiment, const models::Plan& plan);
// The same, written into an arena of that size. On an Error nothing is written.
Status write_starting_parameters(const Experiment& experiment, const models::Plan& plan,
                                 models::Arena& arena);

// How a worker's network is made. `parts`: the back ends of its stages or slices; empty: all on the worker's.
// REQUIRES: with stages the experiment has their cuts (settle_split()).
NetworkForm network_form(const Experiment& experiment, std::uint64_t seed,
                         const std::vector<const kernels::Backend*>& parts = {});

// The Hogwild workers of one peer on its shard of the training set: slot mod slots of the experiment's
// partition, or, with slots = 0 or data of its own, the whole set in an order that depends only on `slot`.
// Batches and their crops and flips are functions of the seed, the slot and the worker's number, which is
// counted over all the peer's devices. `plan`, `backend` and `train` outlive the workers. `parts`: as of
// network_form(); they outlive the workers.
Result<std::vector<std::unique_ptr<Worker>>> make_workers(
    const Experiment& experiment, const models::Plan& plan, const kernels::Backend& backend,
    const datasets::Dataset& train, std::uint64_t slot, std::uint32_t slots, std::uint32_t device = 0,
    const std::vector<const kernels::Backend*>& parts = {});

// What each of these workers is made of.
struct WorkerRecipe {
  BatchSampler sampler;
  WorkerOptions options;
};
Result<std::vector<WorkerRecipe>> worker_recipes(const Experiment& experiment, const datasets::Dataset& train,
                                                 std::uint64_t slot, std::uint32_t slots,
                                                 std::uint32_t device = 0,
                                                 const std::vector<const kernels::Backend*>& parts = {});

// The options in the experiment's gossip settings. An Error if they cannot be combined.
Result<MixOptions> mix_options(const Experiment& experiment);

// The number of cells in a chunk: the fewest that hold gossip.chunk; nullopt if that is auto.
std::optional<std::size_t> chunk_cells(const Experiment& experiment,
                                       std::size_t cell_floats = kDefaultCellFloats);

// The manifest of a run: what its first peer publishes, and what each joiner compares with its own layout and
// settings. `data`: the name of the data set, which also stands for this peer's path in the settings.
// `Manifest` is wire::Manifest, which this room does not include.
template <class Manifest>
Manifest manifest_of(const Experiment& experiment, const models::Layout& layout, const std::string& data) {
  Manifest manifest;
  manifest.model = experiment.model.name;
  manifest.data = data;
  manifest.fingerprint = layout.fingerprint();
  manifest.arena_floats = layout.arena_size();
  manifest.seed = experiment.seed;
  for (const auto& [key, value] : shared_settings(experiment))
    manifest.settings.push_back({key, key == "data.source" ? data : value});
  return manifest;
}

}  // namespace starling::training

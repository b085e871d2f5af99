#include "training/learning/recipe.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "datasets/inputs.h"
#include "datasets/partition.h"
#include "kernels/by_name/backends.h"
#include "models/spec_text.h"
#include "training/learning/data_facts.h"
#include "training/runs/experiment/check.h"
#include "training/runs/experiment/schedule.h"
#include "training/runs/records/checkpoint.h"

namespace starling::training {

namespace {

enum Stream : std::uint64_t { kParameters = 11, kBatches, kImages, kNetworks };

// Whether a device is the processor or a group of its cores, "cpu:0".
bool is_processor(std::string_view device) { return device == "cpu" || device.starts_with("cpu:"); }

Result<std::unique_ptr<kernels::Backend>> make_backend(const Experiment& experiment,
                                                       const std::string& device) {
  const std::string precision = precision_on(experiment, device);
  return kernels::make_backend(is_processor(device) ? "cpu" : device,
                               precision == "bf16"   ? kernels::Precision::bf16
                               : precision == "tf32" ? kernels::Precision::tf32
                                                     : kernels::Precision::f32);
}

// `place`: as in make_backends().
std::vector<std::string> devices_of(const Experiment& experiment, std::uint32_t place) {
  const TrainingSettings& training = experiment.training;
  if (!training.devices.empty()) return training.devices;
  return {training.device == "auto" ? kernels::best_device(place) : training.device};
}

}  // namespace

namespace {

models::ModelText text_of(const Experiment& experiment) {
  return {experiment.model.name, experiment.model.layers};
}

bool is_for_text(const Experiment& experiment) { return models::context_of(text_of(experiment)) > 0; }

}  // namespace

std::string precision_on(const Experiment& experiment, std::string_view device) {
  const std::string& wanted = experiment.training.precision;
  if (wanted != "bf16" || !is_processor(device) || kernels::has_matrix_tiles()) return wanted;
  return is_for_text(experiment) && kernels::has_bfloat16_products() ? wanted : "f32";
}

std::string warning_of_precision(const Experiment& experiment, bool simulated) {
  const auto differs = [simulated](const Experiment& its) {
    if (its.training.precision != "bf16") return false;
    return precision_on(its, simulated ? "cpu" : devices_of(its, 0).front()) != its.training.precision;
  };
  bool any = differs(experiment);
  for (const OwnSettings& own : experiment.own)
    any = any || differs(of_peer(experiment, own.peers.is_all() ? 0 : own.peers.largest()));
  if (!any) return "";
  const std::string begin = "training.precision: this processor computes in f32 instead of bf16: it has ";
  if (is_for_text(experiment))
    return begin + "neither matrix tiles (AMX) nor products of bfloat16 (AVX512-BF16)";
  return begin +
         "no matrix tiles (AMX), and without them bfloat16 can take several times as long for networks of "
         "images";
}

namespace {

Result<models::Plan> plan_for(const models::ModelText& model, const datasets::Dataset& train) {
  const auto& shape = train.shape;
  models::Shape input{shape.channels, shape.height, shape.width};
  if (train.is_text()) input = {1, 1, 1, static_cast<int>(std::max(train.context, 1U))};
  return models::make_model(model, input, train.classes);
}

// Of one value the variance is 0, and the layer's output is its shift whatever it reads.
Status check_normalizations(const Experiment& experiment, const models::Plan& plan) {
  if (experiment.training.batch_size > 1) return Done{};
  for (const models::LayerInfo& info : plan.layers) {
    if (!models::running_statistics(info) || info.input.height * info.input.width > 1) continue;
    return Error{
        "training.batch_size: with 1 the batch norm '" + info.name +
        "' has one value per channel, whose variance is 0, and nothing is learned; use at least 2, or "
        "a layer norm"};
  }
  return Done{};
}

// Servers and fragments divide the arena between whole cells.
Result<models::Plan> check_parts(const Experiment& experiment, Result<models::Plan> plan) {
  if (!plan) return plan;
  if (Status sound = check_normalizations(experiment, *plan); !sound) return sound.error();
  const CellGrid grid{plan->layout.arena_size(), kDefaultCellFloats};
  const auto fits = [&](const std::string& key, std::uint32_t parts) -> Status {
    if (parts <= grid.count()) return Done{};
    return Error{"gossip." + key + ": " + std::to_string(parts) + " " + key + " share a model in cells of " +
                 std::to_string(grid.cell_floats) + " floats, and " + experiment.model.name + " has only " +
                 std::to_string(grid.count()) + " of them"};
  };
  if (has_servers(experiment)) {
    if (Status fine = fits("servers", experiment.gossip.servers); !fine) return fine.error();
  }
  if (traits(experiment.gossip.rule).has_outer_steps()) {
    if (Status fine = fits("fragments", experiment.gossip.fragments); !fine) return fine.error();
  }
  return plan;
}

}  // namespace

std::uint64_t warm_up_of_newcomers(const Experiment& experiment) {
  const Warmup& warmup = experiment.schedule.warmup;
  const bool in_steps = warmup.unit == Warmup::Unit::steps && warmup.length > 0;
  return in_steps ? static_cast<std::uint64_t>(std::ceil(warmup.length)) : kNewcomerSteps;
}

namespace {

// A sentence if the file names no network, or another one than the experiment's; else empty.
std::string warning_of_network(const Experiment& experiment, const std::string& path, const Facts& metadata) {
  const auto its = model_of(metadata);
  if (!its)
    return path + " names no known network, and its tensors are read as " + experiment.model.name + "'s";
  const models::ModelText wanted = text_of(experiment);
  const bool same =
      its->layers.empty() && wanted.layers.empty() ? its->name == wanted.name : its->layers == wanted.layers;
  if (same) return "";
  return path + " is of the network " + its->name + ", and its tensors are read as " + wanted.name + "'s";
}

// The data as the model of a file has them.
Result<datasets::DataPair> load_for_file(const Experiment& experiment, const std::string& data_root,
                                         const std::string& path, bool resumed) {
  const std::string flag = resumed ? "--resume: " : "model.init: ";
  const auto metadata = read_metadata(path);
  if (!metadata) return Error{flag + metadata.error().message};
  if (!resumed) datasets::note_input(path);  // a checkpoint is the peer's own
  const auto given = given_by(path, *metadata);
  if (!given) return Error{flag + given.error().message};
  auto data = datasets::load(experiment.data.source, data_root, *given);
  if (!data) return data;
  auto& decisions = data->origin.decisions;
  if (resumed && are_other_data(*given, *data))
    decisions.emplace_back("these are other samples or labels than those of the checkpoint");
  for (const std::string& warning :
       {warning_of_network(experiment, path, *metadata), warning_of_description(path, *given, *data)})
    if (!warning.empty()) decisions.push_back(warning);
  return data;
}

}  // namespace

Result<datasets::DataPair> load_data(const Experiment& experiment, const std::string& data_root,
                                     const std::optional<std::string>& resumed) {
  const auto& file = resumed ? resumed : experiment.model.init;
  auto data = file ? load_for_file(experiment, data_root, *file, resumed.has_value())
                   : datasets::load(experiment.data.source, data_root);
  if (data) {
    if (const Status added = add_own_data(experiment, data_root, *data); !added) return added.error();
  }
  return data;
}

Status add_own_data(const Experiment& experiment, const std::string& data_root, datasets::DataPair& data) {
  if (!experiment.data.own_data || experiment.data.own_data == experiment.data.source) return Done{};
  const datasets::Given given{
      .tokenizer = data.tokenizer,
      .of_model = std::make_shared<const datasets::Description>(datasets::description_of(data))};
  auto own = datasets::load(*experiment.data.own_data, data_root, given);
  if (!own) return Error{"data.own_data: " + own.error().message};
  if (own->train.labels.empty() && own->train.tokens.empty())
    return Error{"data.own_data: '" + own->name + "' has no samples for training"};
  data.own = std::make_shared<datasets::Dataset>(std::move(own->train));
  const std::uint32_t context = data.any().context;
  if (context > 0) {
    if (Status fits = datasets::check_context(data, context); !fits)
      return Error{"data.own_data: " + fits.error().message};
    data.own->set_context(context);
  }
  return Done{};
}

Result<OwnData> load_own_data(const Experiment& experiment, const std::string& data_root,
                              datasets::DataPair& data) {
  OwnData own;
  const std::shared_ptr<datasets::Dataset> of_all = std::move(data.own);
  for (const OwnSettings& settings : experiment.own) {
    const Experiment its = of_peer(experiment, settings.peers.is_all() ? 0 : settings.peers.largest());
    const auto& path = its.data.own_data;
    if (!path || own.contains(*path)) continue;
    if (Status added = add_own_data(its, data_root, data); !added) return added.error();
    own[*path] = std::exchange(data.own, nullptr);
  }
  data.own = of_all;
  return own;
}

Result<models::Plan> make_plan(const models::ModelText& model, datasets::DataPair& data) {
  const int context = models::context_of(model);
  if (data.any().is_text() && context > 0) {
    if (Status fits = datasets::check_context(data, static_cast<std::uint32_t>(context)); !fits)
      return Error{"model \"" + model.name + "\": " + fits.error().message};
    for (datasets::Dataset* part : {&data.train, &data.test, data.own.get()})
      if (part != nullptr && part->is_text())
        part->set_context(static_cast<std::uint32_t>(context), part == &data.test);
  }
  return plan_for(model, data.any());
}

Result<models::Plan> make_plan(const Experiment& experiment, datasets::DataPair& data) {
  return check_parts(experiment, make_plan(text_of(experiment), data));
}

Result<models::Plan> make_plan(const Experiment& experiment, const datasets::Dataset& train) {
  return check_parts(experiment, plan_for(text_of(experiment), train));
}

Result<std::vector<std::unique_ptr<kernels::Backend>>> make_backends(const Experiment& experiment,
                                                                     std::uint32_t place) {
  const bool several = !experiment.training.devices.empty();
  std::vector<std::unique_ptr<kernels::Backend>> backends;
  for (const std::string& name : devices_of(experiment, place)) {
    auto backend = make_backend(experiment, name);
    if (!backend) {
      const char* key = several              ? "training.devices: "
                        : is_processor(name) ? "training.precision: "
                                             : "training.device: ";
      return Error{key + backend.error().message};
    }
    backends.push_back(std::move(*backend));
  }
  return backends;
}

Result<std::unique_ptr<kernels::Backend>> make_host_backend(const Experiment& experiment) {
  const std::string wanted = experiment.training.devices.empty() ? experiment.training.device
                                                                 : joined(experiment.training.devices, ",");
  if (wanted != "auto" && !is_processor(wanted)) {
    return Error{
        "training.device: the simulator computes on the processor, where a seed gives the same run every "
        "time; " +
        wanted + " is for peers and swarms"};
  }
  auto backend = make_backend(experiment, "cpu");
  if (!backend) return Error{"training.precision: " + backend.error().message};
  return backend;
}

Optimizer make_optimizer(const Experiment& experiment) {
  const auto learning_rate = static_cast<float>(resolved_learning_rate(experiment)),
             momentum = static_cast<float>(experiment.optimizer.momentum),
             beta1 = static_cast<float>(experiment.optimizer.beta1.value_or(experiment.optimizer.momentum)),
             weight_decay = static_cast<float>(experiment.optimizer.weight_decay);
  if (experiment.optimizer.name == "adamw") {
    return models::Arena::AdamWStep{.learning_rate = learning_rate,
                                    .beta1 = beta1,
                                    .beta2 = static_cast<float>(experiment.optimizer.beta2),
                                    .epsilon = static_cast<float>(experiment.optimizer.epsilon),
                                    .weight_decay = weight_decay};
  }
  return models::Arena::SgdStep{.learning_rate = learning_rate,
                                .momentum = momentum,
                                .weight_decay = weight_decay,
                                .nesterov = experiment.optimizer.nesterov};
}

std::vector<float> first_parameters(const models::Plan& plan, std::uint64_t seed) {
  std::vector<float> parameters(plan.layout.arena_size());
  models::initialize(plan, Random(seed).split(kParameters), parameters);
  return parameters;
}

void write_first_parameters(const models::Plan& plan, std::uint64_t seed, models::Arena& arena) {
  models::initialize(plan, Random(seed).split(kParameters), arena);
}

Result<FirstParameters> starting_parameters(const Experiment& experiment, const models::Plan& plan) {
  if (!experiment.model.init) return FirstParameters{first_parameters(plan, experiment.seed), ""};
  auto read = read_safetensors(*experiment.model.init, plan.layout);
  if (!read) return Error{"model.init: " + read.error().message};
  if (Status finite = check_finite(*experiment.model.init, plan.layout, read->arena); !finite)
    return Error{"model.init: " + finite.error().message};
  return FirstParameters{std::move(read->arena), std::move(read->note)};
}

Status write_starting_parameters(const Experiment& experiment, const models::Plan& plan,
                                 models::Arena& arena) {
  if (!experiment.model.init) {
    write_first_parameters(plan, experiment.seed, arena);
    return Done{};
  }
  const auto parameters = starting_parameters(experiment, plan);
  if (!parameters) return parameters.error();
  arena.write(0, parameters->values);
  return Done{};
}

NetworkForm network_form(const Experiment& experiment, std::uint64_t seed,
                         const std::vector<const kernels::Backend*>& parts) {
  const TrainingSettings& training = experiment.training;
  if (has_divided_layers(experiment))
    return SlicedOptions{.parts = training.devices.size(), .seed = seed, .backends = parts};
  if (!has_stages(experiment))
    return models::NetworkOptions{.seed = seed, .recompute = training.recompute == Recomputation::always};
  const std::vector<int>& replicas = experiment.pipeline.stage_replicas;
  return StagedOptions{.cuts = experiment.pipeline.cuts,
                       .schedule = experiment.pipeline.schedule,
                       .micro_batches = resolved_micro_batches(experiment, training.devices.size()),
                       .recomputation = training.recompute,
                       .seed = seed,
                       .stash = true,
                       .vertical_sync = experiment.pipeline.vertical_sync,
                       .replicas = {replicas.begin(), replicas.end()},
                       .backends = parts};
}

Result<std::vector<WorkerRecipe>> worker_recipes(const Experiment& experiment, const datasets::Dataset& train,
                                                 std::uint64_t slot, std::uint32_t slots,
                                                 std::uint32_t device,
                                                 const std::vector<const kernels::Backend*>& parts) {
  std::vector<std::uint32_t> shard;
  if (slots == 0 || experiment.data.own_data) {
    shard.resize(train.size());
    std::iota(shard.begin(), shard.end(), 0U);
  } else {
    auto part = datasets::partition(train, experiment.data.partition, static_cast<int>(slots),
                                    static_cast<int>(slot % slots), experiment.seed);
    if (!part) return part.error();
    shard = std::move(*part);
  }
  if (shard.empty()) {
    return Error{"no training samples for slot " + std::to_string(slot) + " of " + std::to_string(slots) +
                 ": the set holds only " + std::to_string(train.size())};
  }
  const auto augmentation = make_augmentation(experiment, train);
  if (!augmentation) return augmentation.error();
  const Random batches = Random(experiment.seed).split(kBatches).split(slot);
  const Random images = Random(experiment.seed).split(kImages).split(slot);
  const Random networks = Random(experiment.seed).split(kNetworks).split(slot);
  std::vector<WorkerRecipe> recipes;
  for (std::uint32_t k = 0; k < experiment.training.workers; ++k) {
    const std::uint32_t w = device * experiment.training.workers + k;
    WorkerOptions options{.batch_size = experiment.training.batch_size,
                          .optimizer = make_optimizer(experiment),
                          .network = network_form(experiment, networks.split(w).bits(), parts),
                          .clip_norm = static_cast<float>(experiment.optimizer.clip_norm),
                          .warm_up = warm_up_of_newcomers(experiment)};
    if (experiment.optimizer.quasi_global_momentum) options.follow_swarm = experiment.training.workers;
    if (augmentation->any()) options.augmenter.emplace(train, *augmentation, images.split(w));
    recipes.push_back({BatchSampler(shard, batches.split(w)), std::move(options)});
  }
  return recipes;
}

Result<std::vector<std::unique_ptr<Worker>>> make_workers(const Experiment& experiment,
                                                          const models::Plan& plan,
                                                          const kernels::Backend& backend,
                                                          const datasets::Dataset& train, std::uint64_t slot,
                                                          std::uint32_t slots, std::uint32_t device,
                                                          const std::vector<const kernels::Backend*>& parts) {
  auto recipes = worker_recipes(experiment, train, slot, slots, device, parts);
  if (!recipes) return recipes.error();
  const auto make = [&](const std::shared_ptr<const kernels::Samples>& kept) {
    std::vector<std::unique_ptr<Worker>> workers;
    for (WorkerRecipe& recipe : *recipes) {
      recipe.options.kept = kept;
      workers.push_back(std::make_unique<Worker>(plan, backend, train, recipe.sampler, recipe.options));
    }
    return workers;
  };
  // Samples on the device save time, but training needs the memory more.
  if (const std::shared_ptr<const kernels::Samples> kept = keep(train, backend)) {
    try {
      return make(kept);
    } catch (const kernels::OutOfDeviceMemory&) {  // then without them
    }
  }
  return make(nullptr);
}

Result<MixOptions> mix_options(const Experiment& experiment) {
  if (Status status = check_rule(experiment); !status) return status.error();
  const GossipSettings& gossip = experiment.gossip;
  return MixOptions{.rule = gossip.rule,
                    .payload = gossip.payload,
                    .top_k = gossip.top_k,
                    .outer_rate = gossip.outer_rate,
                    .outer_momentum = resolved_outer_momentum(experiment),
                    .fragments = gossip.fragments,
                    .consensus_rate = resolved_consensus_rate(experiment),
                    .clip = gossip.clip,
                    .seed = experiment.seed};
}

std::optional<std::size_t> chunk_cells(const Experiment& experiment, std::size_t cell_floats) {
  if (experiment.gossip.chunk == 0) return std::nullopt;
  const std::size_t cell_bytes = sizeof(float) * cell_floats;
  return (experiment.gossip.chunk + cell_bytes - 1) / cell_bytes;
}

}  // namespace starling::training

#include "training/learning/memory.h"

#include <algorithm>
#include <optional>
#include <set>

#include "kernels/memory.h"
#include "models/network.h"
#include "training/learning/evaluator.h"
#include "training/learning/recipe.h"

namespace starling::training {
namespace {

// Chunks that an exchange has under way and keeps for the next one (node/exchange/plane.h).
constexpr std::size_t kExchangeMost = std::size_t{8} << 20;

// For a worker or an evaluator: samples as floats, their labels and their numbers.
std::size_t batch_bytes(const models::Plan& plan, std::size_t batch) {
  const auto sample = static_cast<std::size_t>(plan.spec.input.size());
  return batch * (sample * sizeof(float) + sizeof(std::int32_t) + sizeof(std::uint32_t));
}

// What grows with the model, layer by layer: a tensor's gap to the next one counts as its own.
void add_parameters(TrainingMemory& memory, const models::Plan& plan, std::size_t states) {
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    LayerBytes& layer = memory.layers[i];
    for (const std::size_t tensor : plan.layers[i].tensors) {
      const std::size_t bytes = plan.layout.room(tensor) * sizeof(float);
      layer.weights += bytes;
      layer.gradients += memory.workers * bytes;
      if (plan.layout.tensors()[tensor].trained) layer.optimizer += memory.workers * states * bytes;
    }
    memory.weights += layer.weights;
    memory.gradients += layer.gradients;
    memory.optimizer += layer.optimizer;
  }
}

// training_memory() without kept_of_all.
TrainingMemory memory_of_network(const Experiment& experiment, const models::Plan& plan,
                                 const models::NetworkMemory& network) {
  TrainingMemory memory;
  const std::size_t states = state_vectors(make_optimizer(experiment));
  memory.parameter = {sizeof(float), sizeof(float), states * sizeof(float)};
  memory.batch_size = experiment.training.batch_size;
  memory.workers = experiment.training.workers;
  memory.layers.resize(plan.layers.size());
  add_parameters(memory, plan, states);

  const std::size_t workers = memory.workers;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    memory.layers[i].counted_at = network.layers[i].counted_at;
    memory.layers[i].activations = workers * network.layers[i].activations_bytes;
    memory.layers[i].workspace = workers * network.layers[i].workspace_bytes;
  }
  memory.kept = workers * network.activations_bytes;
  memory.batch = workers * batch_bytes(plan, experiment.training.batch_size);
  memory.backward = workers * network.gradients_bytes;
  memory.scratch = workers * network.scratch_bytes;
  memory.workspace = workers * network.workspace_bytes;
  return memory;
}

// All threads together; everything counts as activations.
models::NetworkMemory divided_memory(const Experiment& experiment, const models::Plan& plan,
                                     const kernels::Backend& backend) {
  models::NetworkMemory memory;
  memory.layers.resize(plan.layers.size());
  for (std::size_t i = 0; i < plan.layers.size(); ++i) memory.layers[i].counted_at = static_cast<int>(i);
  memory.activations_bytes = divided_bytes(plan, backend, static_cast<int>(experiment.training.batch_size),
                                           network_form(experiment, 0));
  return memory;
}

// A network that is made without its memory, if that would be the host's.
class Sketch {
 public:
  explicit Sketch(const kernels::Backend& backend) {
    if (backend.memory().on_host()) only_sizes_.emplace();
  }

 private:
  std::optional<kernels::OnlySizes> only_sizes_;
};

// `recompute` only counts for a whole network; for stages the experiment says it.
models::NetworkMemory network_memory(const Experiment& experiment, const models::Plan& plan,
                                     const kernels::Backend& backend, bool recompute) {
  const Sketch sketch(backend);
  if (has_stages(experiment) || has_divided_layers(experiment))
    return divided_memory(experiment, plan, backend);
  return models::Network(plan, backend, static_cast<int>(experiment.training.batch_size),
                         models::NetworkUse::train, {.recompute = recompute})
      .memory();
}

// training_memory().total(). Builds only the network that trains; the one without recomputation may not fit.
std::size_t total_memory(const Experiment& experiment, const models::Plan& plan,
                         const kernels::Backend& backend) {
  return memory_of_network(
             experiment, plan,
             network_memory(experiment, plan, backend, experiment.training.recompute != Recomputation::never))
      .total();
}

// The total for the experiment's batch, from those for batches of `first` and of `apart` more.
std::size_t extrapolate(const Experiment& experiment, const models::Plan& plan,
                        const kernels::Backend& backend, std::uint32_t first, std::uint32_t apart) {
  const auto total = [&](std::uint32_t batch) {
    Experiment smaller = experiment;
    smaller.training.batch_size = batch;
    return static_cast<double>(total_memory(smaller, plan, backend));
  };
  const double at_first = total(first), a_sample = (total(first + apart) - at_first) / apart;
  return static_cast<std::size_t>(at_first +
                                  a_sample * (static_cast<double>(experiment.training.batch_size) - first));
}

}  // namespace

TrainingMemory training_memory(const Experiment& experiment, const models::Plan& plan,
                               const kernels::Backend& backend) {
  const bool recompute = experiment.training.recompute != Recomputation::never;
  TrainingMemory memory =
      memory_of_network(experiment, plan, network_memory(experiment, plan, backend, recompute));
  memory.kept_of_all =
      recompute ? memory.workers * network_memory(experiment, plan, backend, false).activations_bytes
                : memory.kept;
  return memory;
}

PeerMemory peer_memory(const TrainingMemory& memory, const models::Plan& plan,
                       const kernels::Backend& backend, const datasets::DataPair* data) {
  PeerMemory peer;
  peer.training = memory.total();
  const Sketch sketch(backend);
  const models::Network judge(plan, backend, Evaluator::kBatch, models::NetworkUse::evaluate);
  peer.evaluation = memory.weights + judge.memory().total() + batch_bytes(plan, Evaluator::kBatch);
  peer.exchange = std::min(memory.weights, kExchangeMost);
  if (data != nullptr) {
    peer.data = data->train.memory_bytes() + data->test.memory_bytes() +
                memory.workers * data->train.size() * sizeof(std::uint32_t);
  }
  return peer;
}

std::size_t least_training_memory(const Experiment& experiment, const models::Plan& plan) {
  TrainingMemory memory;
  memory.workers = experiment.training.workers;
  memory.layers.resize(plan.layers.size());
  add_parameters(memory, plan, state_vectors(make_optimizer(experiment)));
  // The backward pass needs the inputs of layers that multiply by weights; with recomputation only one at a
  // time.
  std::set<int> read;
  std::size_t largest = 0, all = 0;
  for (const models::LayerInfo& layer : plan.layers) {
    const bool multiplies = std::ranges::any_of(layer.tensors, [&](std::size_t tensor) {
      return plan.layout.tensors()[tensor].shape.size() > 1;  // a weight: others have a number per channel
    });
    if (!multiplies || layer.from == models::LayerInfo::kInput || !read.insert(layer.from).second) continue;
    const auto floats = static_cast<std::size_t>(layer.input.size());
    largest = std::max(largest, floats);
    all += floats;
  }
  const std::size_t number = experiment.training.precision == "bf16" ? 2 : sizeof(float);
  const std::size_t batch = experiment.training.batch_size;
  memory.batch = memory.workers * batch_bytes(plan, batch);
  memory.kept = memory.workers * batch *
                (experiment.training.recompute != Recomputation::never ? largest : all) * number;
  return memory.total();
}

std::size_t host_training_memory(const Experiment& experiment, const models::Plan& plan,
                                 const kernels::Backend& backend) {
  return total_memory(experiment, plan, backend);
}

std::size_t device_memory(const Experiment& experiment, const models::Plan& plan,
                          const kernels::Backend& backend) {
  // The larger the batches, the smaller the share of other memory.
  for (std::uint32_t half = std::max(1U, experiment.training.batch_size / 4);;
       half = std::max(1U, half / 4)) {
    try {
      return extrapolate(experiment, plan, backend, half, half);
    } catch (const kernels::OutOfDeviceMemory&) {
      if (half == 1) throw;
    }
  }
}

}  // namespace starling::training

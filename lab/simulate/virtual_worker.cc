#include "lab/simulate/virtual_worker.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace starling::lab {

Engines::Engines(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
                 std::size_t batch, const models::NetworkOptions& options)
    : make_([&plan, &backend, &data, batch, options] {
        return std::unique_ptr<Engine>(new Engine{
            models::Network(plan, backend, static_cast<int>(batch), models::NetworkUse::train, options),
            training::Feed(backend, data, nullptr, batch)});
      }) {
  idle_.push_back(make_());  // so that an impossible configuration fails here
}

Engines::Lease Engines::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Engine* const engine = idle_.back().release();
      idle_.pop_back();
      return Lease(engine, Return{this});
    }
  }
  return Lease(make_().release(), Return{this});
}

void Engines::Return::operator()(Engine* engine) const {
  const std::lock_guard lock(engines->mutex_);
  engines->idle_.emplace_back(engine);
}

std::shared_ptr<Engines> make_shared_engines(const training::Experiment& experiment, const models::Plan& plan,
                                             const kernels::Backend& backend,
                                             const datasets::Dataset& train) {
  const bool draws = std::any_of(plan.layers.begin(), plan.layers.end(), [](const models::LayerInfo& info) {
    const auto* attention = std::get_if<models::Attention>(&info.layer.kind);
    return std::holds_alternative<models::Dropout>(info.layer.kind) ||
           (attention != nullptr && attention->dropout > 0);
  });
  if (draws) return nullptr;
  return std::make_shared<Engines>(plan, backend, train, experiment.training.batch_size,
                                   std::get<models::NetworkOptions>(training::network_form(experiment, 0)));
}

VirtualWorker::VirtualWorker(const models::Plan& plan, const kernels::Backend& backend,
                             const datasets::Dataset& data, training::WorkerRecipe recipe,
                             std::shared_ptr<Engines> engines)
    : engines_(engines ? std::move(engines)
                       : std::make_shared<Engines>(plan, backend, data, recipe.options.batch_size,
                                                   std::get<models::NetworkOptions>(recipe.options.network))),
      batches_(std::move(recipe.sampler), recipe.options.batch_size, std::move(recipe.options.augmenter)),
      optimizer_(recipe.options.optimizer, plan.layout, recipe.options.clip_norm, backend.memory(),
                 kernels::host_queue()),
      warm_up_(recipe.options.warm_up) {
  if (recipe.options.follow_swarm > 0)
    optimizer_.follow_swarm(recipe.options.follow_swarm, kernels::host_queue());
}

double VirtualWorker::compute(const float* parameters, kernels::Buffer& gradient) {
  return compute(*engines_->take(), parameters, gradient);
}

double VirtualWorker::compute(kernels::Buffer& vector) {
  const auto engine = engines_->take();
  if (engine->gradient.size() == 0) engine->gradient = kernels::Buffer(vector.size());
  const double loss = compute(*engine, vector.data(), engine->gradient);
  std::swap(vector, engine->gradient);
  clear(engine->gradient);
  return loss;
}

double VirtualWorker::compute(Engine& engine, const float* parameters, kernels::Buffer& gradient) {
  batches_.draw(engine.feed, 0);
  batches_.landed();
  return engine.network.train(parameters, engine.feed.inputs(), engine.feed.labels(), gradient.data());
}

void VirtualWorker::apply(models::Arena& arena, std::span<const float> gradient, double rate_factor) {
  kernels::Queue& queue = kernels::host_queue();
  const std::size_t trained = optimizer_.trained();
  if (gradient.size() > trained) arena.add(trained, gradient.subspan(trained), queue);
  optimizer_.apply(arena, gradient.first(trained), rate_factor, queue);
}

training::WorkerState VirtualWorker::save(const models::Arena& arena) const {
  training::WorkerState state;
  batches_.save(state);
  optimizer_.save(state, arena, kernels::host_queue());
  return state;
}

Status VirtualWorker::restore(const training::WorkerState& state, const models::Arena& arena) {
  if (Status restored = batches_.restore(state); !restored) return restored;
  engines_->take()->network.set_draws(batches_.drawn());
  return optimizer_.restore(state, arena, kernels::host_queue());
}

void VirtualWorker::clear(kernels::Buffer& vector) { std::fill_n(vector.data(), vector.size(), 0.0F); }

}  // namespace starling::lab

#include "training/learning/worker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace starling::training {

Worker::Worker(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
               BatchSampler sampler, const WorkerOptions& options)
    : backend_(backend),
      stream_(make_batch_stream(
          plan, backend, Feed(backend, data, options.kept, options.batch_size),
          static_cast<int>(options.batch_size), options.network,
          {[this] { return rate_factor_(); }, [this](const BatchStream::Update& update) { add(update); }})),
      batches_(std::move(sampler), options.batch_size, options.augmenter),
      optimizer_(options.optimizer, plan.layout, options.clip_norm, backend.memory(), stream_->queue()),
      warm_up_(options.warm_up),
      applied_(stream_->queue().make_mark()) {
  STARLING_CHECK(plan.spec.input.size() == data.shape.size() && plan.classes >= data.classes);
  if (options.follow_swarm > 0) optimizer_.follow_swarm(options.follow_swarm, stream_->queue());
  for (auto& ranges : stream_->stages())
    stages_.push_back(stage_floats(std::move(ranges), plan.layout.trained_size()));
}

void Worker::feed(models::Arena& arena) {
  if (arena_ != &arena) arena_ = &arena;  // threads of stages may read it
  stream_->feed(batches_, arena);
}

// The optimizer counts the updates of a stream at its end, when all stages have made as many; those of the
// first one if stages have unlike numbers of replicas.
std::optional<double> Worker::end_batch(bool updates) {
  const std::optional<double> loss = stream_->land(updates);
  if (updates || updates_meanwhile()) batches_.landed();
  if (updates_meanwhile() && stream_->in_flight() == 0)
    optimizer_.count_updates(std::exchange(updates_of_first_stage_, 0));
  return loss;
}

void Worker::add(const BatchStream::Update& update) {
  if (updates_meanwhile()) {
    if (update.stage == 0) updates_of_first_stage_ = update.number + 1;
    const auto gradient_of = [&](const FloatRange& range) {
      return std::span(update.gradient + range.first, range.second - range.first);
    };
    return add_update(stages_[update.stage], *arena_, gradient_of, update.rate_factor, update.number,
                      optimizer_);
  }
  kernels::Queue& queue = stream_->queue();
  const std::size_t trained = optimizer_.trained(), statistics = arena_->size() - trained;
  if (statistics > 0) arena_->add(trained, {update.gradient + trained, statistics}, queue);
  optimizer_.apply(*arena_, {update.gradient, trained}, update.rate_factor, queue);
  queue.mark(*applied_);
}

std::span<const float> Worker::gradient() {
  kernels::Buffer& gradient = stream_->computed()->gradient;
  if (backend_.memory().on_host()) return gradient.values();
  if (gradient_on_host_.size() == 0) gradient_on_host_ = kernels::Buffer(gradient.size(), backend_.staging());
  stream_->queue().download(gradient.data(), gradient_on_host_.data(), gradient.bytes());
  stream_->queue().wait();
  return gradient_on_host_.values();
}

void Worker::replace_gradient(std::span<const float> mean) {
  kernels::Buffer& gradient = stream_->computed()->gradient;
  STARLING_CHECK(mean.size() == gradient.size());
  stream_->queue().upload(mean.data(), gradient.data(), gradient.bytes());
  stream_->queue().wait();  // then the caller may free the values
}

WorkerState Worker::save(const models::Arena& arena) {
  applied_->wait();
  WorkerState state;
  batches_.save(state);
  optimizer_.save(state, arena, stream_->queue());
  return state;
}

Status Worker::restore_cursor(const WorkerState& state) {
  if (Status restored = batches_.restore(state); !restored) return restored;
  stream_->set_draws(batches_.drawn());
  return Done{};
}

}  // namespace starling::training

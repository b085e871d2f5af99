#include "training/learning/worker.h"

#include <algorithm>

#include "base/check.h"

namespace starling::training {

BatchSampler::BatchSampler(std::vector<std::uint32_t> shard, Random random)
    : order_(std::move(shard)),
      random_(random),
      position_(order_.size()),
      random_before_(random),
      position_before_(position_) {
  STARLING_CHECK(!order_.empty());
}

void BatchSampler::next(std::span<std::uint32_t> batch) {
  if (!order_before_.empty()) order_before_ = {};
  random_before_ = random_;
  position_before_ = position_;
  for (auto& index : batch) {
    if (position_ == order_.size()) {
      if (order_before_.empty()) order_before_ = order_;
      random_.shuffle(std::span(order_));
      position_ = 0;
    }
    index = order_[position_++];
  }
}

Cursor BatchSampler::cursor_before() const {
  return {order_before_.empty() ? order_ : order_before_, position_before_, state_of(random_before_)};
}

Status BatchSampler::set(Cursor cursor) {
  if (cursor.order.size() != order_.size() || cursor.position > order_.size()) {
    return Error{"it was in a shard of " + std::to_string(cursor.order.size()) +
                 " samples, but this shard has " + std::to_string(order_.size())};
  }
  const auto sorted = [](std::vector<std::uint32_t> indices) {
    std::sort(indices.begin(), indices.end());
    return indices;
  };
  if (sorted(cursor.order) != sorted(order_)) return Error{"it was in a shard of other samples"};
  order_before_ = {};
  order_ = std::move(cursor.order);
  position_ = position_before_ = cursor.position;
  random_ = random_before_ = random_of(cursor.random);
  return Done{};
}

Engines::Engines(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
                 const WorkerOptions& options)
    : make_([&plan, &backend, &data, batch_size = options.batch_size, network = options.network,
             kept = options.kept] {
        return std::unique_ptr<Engine>(
            new Engine{make_step_network(plan, backend, static_cast<int>(batch_size), network),
                       Feed(backend, data, kept, batch_size)});
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

Worker::Worker(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
               BatchSampler sampler, const WorkerOptions& options)
    : memory_(backend.memory()),
      staging_(backend.staging()),
      engines_(options.engines ? options.engines : std::make_shared<Engines>(plan, backend, data, options)),
      data_(data),
      sampler_(std::move(sampler)),
      optimizer_(options.optimizer, plan.layout, options.clip_norm, memory_,
                 engines_->take()->network->queue()),
      warm_up_(options.warm_up),
      indices_(options.batch_size),
      lanes_(engines_->take()->feed.lanes()),
      arena_floats_(plan.layout.arena_size()),
      gradient_(options.engines ? 0 : arena_floats_, memory_),
      applied_(engines_->take()->network->queue().make_mark()) {
  STARLING_CHECK(plan.spec.input.size() == data.shape.size() && plan.classes >= data.classes);
  const auto engine = engines_->take();
  for (Step& step : lanes_) {
    step.done = engine->network->queue().make_mark();
    step.loss = kernels::Staged<kernels::LossValue>(backend.staging());
  }
  stream_ = engine->network->stream();
  if (stream_ == nullptr) return;
  gradient_ = {};  // the stages have their own
  divide(plan);
}

void Worker::divide(const models::Plan& plan) {
  parts_.resize(stream_->stages());
  const std::size_t trained = plan.layout.trained_size();
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    std::vector<FloatRange> ranges = stream_->ranges(s);
    std::ranges::sort(ranges);
    for (const auto& [begin, end] : ranges) {
      if (begin >= trained) {
        parts_[s].statistics.emplace_back(begin, end);
        continue;
      }
      // Layers follow one another, and so do their tensors, each up to the next multiple of 16.
      FloatRange& all = parts_[s].trained;
      STARLING_CHECK(all.second == 0 || all.second == begin);
      if (all.second == 0) all.first = begin;
      all.second = (end + kernels::kDecayBlock - 1) / kernels::kDecayBlock * kernels::kDecayBlock;
    }
  }
  stream_->set_apply([this](const StreamedNetwork::Update& update) { update_stage(update); });
}

void Worker::update_stage(const StreamedNetwork::Update& update) {
  const StagePart& part = parts_[update.stage];
  for (const auto& [begin, end] : part.statistics)
    stream_arena_->add(begin, {update.gradient + begin, end - begin});
  if (update.stage == 0) stream_updates_ = update.number + 1;
  const std::size_t count = part.trained.second - part.trained.first;
  if (count == 0) return;
  optimizer_.apply_part(*stream_arena_, part.trained.first, {update.gradient + part.trained.first, count},
                        update.rate_factor, optimizer_.updates() + update.number + 1);
}

std::optional<double> Worker::feed(models::Arena& arena, double rate_factor) {
  const auto engine = engines_->take();
  if (augmenter_) images_before_ = state_of(augmenter_->random());
  sampler_.next(indices_);
  ++draws_;
  engine->feed.choose(0, indices_, augmenter_ ? &*augmenter_ : nullptr);
  engine->feed.bring(0, engine->network->queue());
  if (stream_->in_flight() == 0) stream_arena_ = &arena;  // else threads of stages read it
  return landed(stream_->feed(arena, engine->feed.inputs(), engine->feed.labels(), rate_factor));
}

std::optional<double> Worker::land() { return landed(stream_->land()); }

// The optimizer counts the updates of a stream at its end, when all stages have made as many; the first
// stage's if stages have unlike numbers of replicas.
std::optional<double> Worker::landed(std::optional<double> loss) {
  if (stream_->in_flight() == 0) optimizer_.count_updates(std::exchange(stream_updates_, 0));
  return loss;
}

void Worker::need_gradient() {
  if (gradient_.size() == 0) gradient_ = kernels::Buffer(arena_floats_, memory_);
}

// The gaps between the tensors of a gradient must stay zero; the gaps of parameters may hold other values.
void Worker::clear(kernels::Buffer& vector) { std::fill_n(vector.data(), vector.size(), 0.0F); }

kernels::Buffer Worker::give_back() {
  if (std::exchange(taken_, false)) clear(gradient_);
  return std::exchange(gradient_, {});
}

double Worker::compute(const float* parameters) {
  need_gradient();
  return compute(*engines_->take(), parameters, gradient_.data());
}

void Worker::take(const models::Arena& arena) {
  need_gradient();
  arena.read(0, gradient_.values());
  taken_ = true;
}

void Worker::put(std::span<const float> vector, bool is_gradient) {
  need_gradient();
  STARLING_CHECK(vector.size() == gradient_.size());
  std::copy(vector.begin(), vector.end(), gradient_.data());
  taken_ = !is_gradient;
}

double Worker::compute_taken() {
  const auto engine = engines_->take();
  if (engine->gradient.size() == 0) engine->gradient = kernels::Buffer(gradient_.size(), memory_);
  const double loss = compute(*engine, gradient_.data(), engine->gradient.data());
  std::swap(gradient_, engine->gradient);
  clear(engine->gradient);
  taken_ = false;
  return loss;
}

double Worker::compute(Engine& engine, const float* parameters, float* gradient) {
  Feed& feed = engine.feed;
  kernels::Queue& queue = engine.network->queue();
  Step& step = lanes_[lane_];
  step.done->wait();  // then its lane of the feed is free and its loss is valid
  const double loss_before = step.loss->sum;
  if (parameters != parameters_) {
    for (Step& recorded : lanes_) recorded.recording.reset();
    parameters_ = parameters;
  }
  if (augmenter_) images_before_ = state_of(augmenter_->random());
  sampler_.next(indices_);
  ++draws_;
  under_way_ = true;
  feed.choose(lane_, indices_, augmenter_ ? &*augmenter_ : nullptr);
  queue.run(step.recording, [this, &engine, gradient] {
    engine.feed.bring(lane_, engine.network->queue());
    engine.network->start_training(parameters_, engine.feed.inputs(), engine.feed.labels(), gradient,
                                   lanes_[lane_].loss.get());
  });
  queue.mark(*step.done);
  lane_ = (lane_ + 1) % lanes_.size();
  const bool late = lanes_.size() > 1 && step.made;
  if (!late) step.done->wait();
  step.made = true;
  return (late ? loss_before : step.loss->sum) / static_cast<double>(engine.network->predictions());
}

std::span<const float> Worker::gradient() {
  if (memory_.on_host()) return gradient_.values();
  if (gradient_on_host_.size() == 0) gradient_on_host_ = kernels::Buffer(gradient_.size(), staging_);
  const auto engine = engines_->take();
  engine->network->queue().download(gradient_.data(), gradient_on_host_.data(), gradient_.bytes());
  engine->network->queue().wait();
  return gradient_on_host_.values();
}

void Worker::replace_gradient(std::span<const float> mean) {
  STARLING_CHECK(mean.size() == gradient_.size());
  if (memory_.on_host()) {
    std::copy(mean.begin(), mean.end(), gradient_.data());
    return;
  }
  const auto engine = engines_->take();
  engine->network->queue().upload(mean.data(), gradient_.data(), gradient_.bytes());
  engine->network->queue().wait();  // then the caller may free the values
}

void Worker::apply(models::Arena& arena, double rate_factor) {
  const auto engine = engines_->take();
  kernels::Queue& queue = engine->network->queue();
  under_way_ = false;
  const std::size_t trained = optimizer_.trained(), statistics = gradient_.size() - trained;
  if (statistics > 0) arena.add(trained, {gradient_.data() + trained, statistics}, queue);
  optimizer_.apply(arena, {gradient_.data(), trained}, rate_factor, queue);
  queue.mark(*applied_);
}

void Worker::follow_swarm(std::uint32_t workers) {
  optimizer_.follow_swarm(workers, engines_->take()->network->queue());
}

void Worker::renew() { optimizer_.renew(engines_->take()->network->queue(), warm_up_); }

WorkerState Worker::save(const models::Arena& arena) {
  applied_->wait();
  return save(arena, under_way_);
}

WorkerState Worker::save_midway(const models::Arena& arena) { return save(arena, false); }

// A step that has begun does not count.
WorkerState Worker::save(const models::Arena& arena, bool step_begun) {
  WorkerState state;
  state.cursor = step_begun ? sampler_.cursor_before() : sampler_.cursor();
  if (augmenter_) state.images = step_begun ? *images_before_ : state_of(augmenter_->random());
  state.draws = draws_ - (step_begun ? 1 : 0);
  optimizer_.save(state, arena, engines_->take()->network->queue());
  return state;
}

Status Worker::restore_cursor(const WorkerState& state) {
  if (Status set = sampler_.set(state.cursor); !set) return set;
  if (augmenter_ && state.images) augmenter_->set_random(random_of(*state.images));
  draws_ = state.draws;
  const auto engine = engines_->take();
  engine->network->set_draws(draws_);
  under_way_ = false;
  return Done{};
}

Status Worker::restore_optimizer(const WorkerState& state, const models::Arena& arena) {
  return optimizer_.restore(state, arena, engines_->take()->network->queue());
}

}  // namespace starling::training

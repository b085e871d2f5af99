#include "training/worker.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace starling::training {

BatchSampler::BatchSampler(std::vector<std::uint32_t> shard, Random random)
    : order_(std::move(shard)), random_(random), position_(order_.size()) {
  STARLING_CHECK(!order_.empty());
}

void BatchSampler::next(std::span<std::uint32_t> batch) {
  for (auto& index : batch) {
    if (position_ == order_.size()) {
      random_.shuffle(std::span(order_));
      position_ = 0;
    }
    index = order_[position_++];
  }
}

std::size_t state_vectors(const Optimizer& optimizer) {
  return std::holds_alternative<models::Arena::AdamWStep>(optimizer) ? 2 : 1;
}

Worker::Worker(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
               BatchSampler sampler, std::uint32_t batch_size, const Optimizer& optimizer,
               models::NetworkOptions options)
    : network_(plan, backend, static_cast<int>(batch_size), models::Purpose::train, options),
      data_(data),
      sampler_(std::move(sampler)),
      optimizer_(optimizer),
      indices_(batch_size),
      inputs_(batch_size * static_cast<std::size_t>(data.shape.size())),
      labels_(batch_size),
      gradient_(plan.layout.arena_size()),
      velocity_(plan.layout.trained_size()),
      square_(state_vectors(optimizer) > 1 ? plan.layout.trained_size() : 0) {
  STARLING_CHECK(plan.spec.input.size() == data.shape.size() && plan.classes >= data.classes);
}

double Worker::compute(const float* parameters) {
  sampler_.next(indices_);
  data_.gather(indices_, inputs_.data(), labels_.data());
  if (augmenter_) augmenter_->change(inputs_.data(), indices_.size());
  return network_.train(parameters, inputs_.data(), labels_.data(), gradient_.data());
}

void Worker::apply(models::Arena& arena, double rate_factor) {
  const auto gradient = std::span<const float>(gradient_).first(velocity_.size());
  arena.add(gradient.size(), std::span<const float>(gradient_).subspan(gradient.size()));  // running statistics
  const auto scaled = [rate_factor](auto step) {
    step.learning_rate = static_cast<float>(static_cast<double>(step.learning_rate) * rate_factor);
    return step;
  };
  if (const auto* adamw = std::get_if<models::Arena::AdamWStep>(&optimizer_)) {
    return arena.adamw(gradient, velocity_, square_, scaled(*adamw), ++steps_);
  }
  const auto sgd = scaled(std::get<models::Arena::SgdStep>(optimizer_));
  if (workers_ == 0) return arena.sgd(gradient, velocity_, sgd);
  follow(arena);
  arena.sgd_along(gradient, velocity_, sgd);
  ++steps_since_;
  rates_since_ += static_cast<double>(sgd.learning_rate);
}

void Worker::follow_swarm(std::uint32_t workers) {
  STARLING_CHECK(workers > 0 && std::holds_alternative<models::Arena::SgdStep>(optimizer_));
  workers_ = workers;
  renew();
}

void Worker::follow(const models::Arena& arena) {
  const std::uint64_t mixes = arena.mixes();
  if (last_.empty()) {  // it begins here
    last_.resize(velocity_.size());
    arena.read(0, last_);
  } else if (mixes != mixes_seen_ && rates_since_ > 0) {
    const double gain = 1 - std::pow(1 - kFollow, static_cast<double>(steps_since_));
    arena.follow(velocity_, last_, static_cast<float>(1 - gain),
                 static_cast<float>(gain / (static_cast<double>(workers_) * rates_since_)));
  } else {
    return;
  }
  mixes_seen_ = mixes;
  steps_since_ = 0;
  rates_since_ = 0;
}

void Worker::renew() {
  std::fill(velocity_.begin(), velocity_.end(), 0.0F);
  std::fill(square_.begin(), square_.end(), 0.0F);
  steps_ = 0;
  last_.clear();
}

Evaluator::Evaluator(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
                     int batch)
    : network_(plan, backend, batch, models::Purpose::evaluate),
      data_(data),
      indices_(static_cast<std::size_t>(batch)),
      inputs_(static_cast<std::size_t>(batch) * static_cast<std::size_t>(data.shape.size())),
      labels_(static_cast<std::size_t>(batch)) {
  STARLING_CHECK(plan.spec.input.size() == data.shape.size() && plan.classes >= data.classes);
}

Evaluator::Score Evaluator::evaluate(const float* parameters, std::size_t limit) {
  return evaluate(std::span(&parameters, 1), limit).front();
}

std::vector<Evaluator::Score> Evaluator::evaluate(std::span<const float* const> replicas, std::size_t limit) {
  const std::size_t total = std::min(limit, data_.size());
  std::vector<double> loss_sums(replicas.size());
  std::vector<std::int64_t> correct(replicas.size());
  for (std::size_t start = 0; start < total; start += indices_.size()) {
    const auto count = std::min(indices_.size(), total - start);
    const auto batch = std::span(indices_).first(count);
    std::iota(batch.begin(), batch.end(), static_cast<std::uint32_t>(start));
    data_.gather(batch, inputs_.data(), labels_.data());
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      const auto result =
          network_.evaluate(replicas[r], inputs_.data(), labels_.data(), static_cast<int>(count));
      loss_sums[r] += result.loss_sum;
      correct[r] += result.correct;
    }
  }
  std::vector<Score> scores(replicas.size());
  if (total == 0) return scores;
  const auto n = static_cast<double>(total);
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    scores[r] = {.accuracy = static_cast<double>(correct[r]) / n, .loss = loss_sums[r] / n};
  }
  return scores;
}

}  // namespace starling::training

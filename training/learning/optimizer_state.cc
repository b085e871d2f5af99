#include "training/learning/optimizer_state.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace starling::training {
namespace {

std::vector<float> copy_of(const kernels::Buffer& buffer, kernels::Queue& queue) {
  std::vector<float> values(buffer.size());
  if (values.empty()) return values;
  queue.download(buffer.data(), values.data(), buffer.bytes());
  queue.wait();
  return values;
}

void fill(kernels::Buffer& buffer, const std::vector<float>& values, kernels::Queue& queue) {
  if (values.empty()) return;
  queue.upload(values.data(), buffer.data(), buffer.bytes());
  queue.wait();  // then the caller may free the values
}

}  // namespace

std::size_t state_vectors(const Optimizer& optimizer) {
  return std::holds_alternative<models::Arena::AdamWStep>(optimizer) ? 2 : 1;
}

std::vector<std::uint8_t> decayed_blocks(const models::Layout& layout) {
  constexpr std::size_t kBlock = kernels::kDecayBlock;
  std::vector<std::uint8_t> decays(layout.trained_size() / kBlock);
  for (const models::Tensor& tensor : layout.tensors()) {
    if (!tensor.trained || tensor.shape.size() < 2) continue;
    STARLING_CHECK(tensor.offset % kBlock == 0);
    std::fill_n(decays.begin() + static_cast<std::ptrdiff_t>(tensor.offset / kBlock),
                (tensor.size + kBlock - 1) / kBlock, std::uint8_t{1});
  }
  return decays;
}

OptimizerState::OptimizerState(const Optimizer& optimizer, const models::Layout& layout, float clip_norm,
                               kernels::Memory& memory, kernels::Queue& queue)
    : optimizer_(optimizer),
      clip_norm_(clip_norm),
      memory_(memory),
      velocity_(layout.trained_size(), memory),
      square_(state_vectors(optimizer) > 1 ? layout.trained_size() : 0, memory) {
  if (clip_norm > 0) {
    clip_ = kernels::Staged<models::Arena::Clip>(memory);
    std::visit([this](auto& step) { step.gain = &clip_.get()->gain; }, optimizer_);
  }
  auto* const adamw = std::get_if<models::Arena::AdamWStep>(&optimizer_);
  if (adamw == nullptr || adamw->weight_decay == 0) return;
  const std::vector<std::uint8_t> decays = decayed_blocks(layout);
  decays_ = kernels::Buffer((decays.size() + sizeof(float) - 1) / sizeof(float), memory);
  queue.upload(decays.data(), decays_.data(), decays.size());
  queue.wait();  // then the values may be freed
  adamw->decays = reinterpret_cast<const std::uint8_t*>(decays_.data());
}

void OptimizerState::follow_swarm(std::uint32_t workers, kernels::Queue& queue) {
  STARLING_CHECK(workers > 0 && std::holds_alternative<models::Arena::SgdStep>(optimizer_));
  following_.workers = workers;
  renew(queue);
}

namespace {

template <class Step>
Step scaled(Step step, double rate_factor) {
  step.learning_rate = static_cast<float>(static_cast<double>(step.learning_rate) * rate_factor);
  return step;
}

}  // namespace

double OptimizerState::warmed_up(double rate_factor, std::uint64_t t) const {
  return t < warm_up_ ? rate_factor * static_cast<double>(t) / static_cast<double>(warm_up_) : rate_factor;
}

void OptimizerState::apply(models::Arena& arena, std::span<const float> gradient, double rate_factor,
                           kernels::Queue& queue) {
  if (clip_norm_ > 0) arena.clip(gradient, clip_norm_, clip_.get(), queue);
  if (const auto* adamw = std::get_if<models::Arena::AdamWStep>(&optimizer_)) {
    ++steps_;
    arena.adamw(gradient, velocity_.values(), square_.values(),
                scaled(*adamw, warmed_up(rate_factor, steps_)), steps_, queue);
    return;
  }
  const auto sgd = scaled(std::get<models::Arena::SgdStep>(optimizer_), rate_factor);
  if (following_.workers == 0) {
    arena.sgd(gradient, velocity_.values(), sgd, queue);
    return;
  }
  follow(arena, queue);
  arena.sgd_along(gradient, velocity_.values(), sgd, queue);
  ++following_.steps_since;
  following_.rates_since += static_cast<double>(sgd.learning_rate);
}

void OptimizerState::apply_part(models::Arena& arena, std::size_t offset, std::span<const float> gradient,
                                double rate_factor, std::uint64_t t) {
  STARLING_CHECK(clip_norm_ == 0 && following_.workers == 0 && offset % kernels::kDecayBlock == 0);
  models::Arena part = arena.part(offset, gradient.size());
  const auto velocity = velocity_.values().subspan(offset, gradient.size());
  if (const auto* adamw = std::get_if<models::Arena::AdamWStep>(&optimizer_)) {
    auto step = scaled(*adamw, warmed_up(rate_factor, t));
    if (step.decays != nullptr) step.decays += offset / kernels::kDecayBlock;
    part.adamw(gradient, velocity, square_.values().subspan(offset, gradient.size()), step, t);
    return;
  }
  part.sgd(gradient, velocity, scaled(std::get<models::Arena::SgdStep>(optimizer_), rate_factor));
}

void OptimizerState::follow(const models::Arena& arena, kernels::Queue& queue) {
  Following& f = following_;
  const std::uint64_t mixes = arena.mixes();
  if (!f.begun) {
    if (f.last.size() == 0) f.last = kernels::Buffer(velocity_.size(), memory_);
    arena.copy(0, f.last.values(), queue);
    f.begun = true;
  } else if (mixes != f.mixes_seen && f.rates_since > 0) {
    const double gain = 1 - std::pow(1 - kFollow, static_cast<double>(f.steps_since));
    arena.follow(velocity_.values(), f.last.values(), static_cast<float>(1 - gain),
                 static_cast<float>(gain / (static_cast<double>(f.workers) * f.rates_since)), queue);
  } else {
    return;
  }
  f.mixes_seen = mixes;
  f.steps_since = 0;
  f.rates_since = 0;
}

void OptimizerState::renew(kernels::Queue& queue, std::uint64_t warm_up) {
  queue.clear(velocity_.data(), velocity_.bytes());
  queue.clear(square_.data(), square_.bytes());
  steps_ = 0;
  warm_up_ = warm_up;
  following_.begun = false;
}

void OptimizerState::save(WorkerState& state, const models::Arena& arena, kernels::Queue& queue) const {
  state.velocity = copy_of(velocity_, queue);
  state.square = copy_of(square_, queue);
  state.steps = steps_;
  if (following_.begun) {
    state.following = WorkerState::Following{arena.mixes() != following_.mixes_seen, following_.steps_since,
                                             following_.rates_since, copy_of(following_.last, queue)};
  }
}

Status OptimizerState::restore(const WorkerState& state, const models::Arena& arena, kernels::Queue& queue) {
  const bool follows = following_.workers > 0;
  if (state.velocity.size() != velocity_.size() || state.square.size() != square_.size() ||
      (state.following && (!follows || state.following->last.size() != velocity_.size()))) {
    return Error{"it is of another optimizer"};
  }
  fill(velocity_, state.velocity, queue);
  fill(square_, state.square, queue);
  steps_ = state.steps;
  following_.begun = state.following.has_value();
  if (following_.begun) {
    if (following_.last.size() == 0) following_.last = kernels::Buffer(velocity_.size(), memory_);
    fill(following_.last, state.following->last, queue);
    following_.mixes_seen = arena.mixes() - (state.following->mixed ? 1 : 0);
    following_.steps_since = state.following->steps;
    following_.rates_since = state.following->rates;
  }
  return Done{};
}

}  // namespace starling::training

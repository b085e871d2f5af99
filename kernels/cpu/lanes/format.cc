#include "kernels/cpu/lanes/format.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu::lanes {
namespace {

// Calls f(offset of a run of floats in a plain sample, its place in a block's sample, its length): the whole
// sample, or the rows of a window.
template <class F>
void for_runs(const Activation& plain, const F& f) {
  const Shape& shape = plain.shape;
  if (is_dense_plain(plain)) {
    f(std::ptrdiff_t{0}, std::ptrdiff_t{0}, static_cast<int>(shape.sample_size()));
    return;
  }
  const Plain* stored = as_plain(plain);
  STARLING_CHECK(stored != nullptr);
  for (std::ptrdiff_t c = 0; c < shape.channels; ++c) {
    for (std::ptrdiff_t i = 0; i < shape.height; ++i) {
      f((c * stored->height + i) * stored->width, (c * shape.height + i) * shape.width, shape.width);
    }
  }
}

std::ptrdiff_t stored_sample_size(const Activation& plain) {
  return static_cast<std::ptrdiff_t>(plain.floats) / plain.shape.batch;
}

}  // namespace

bool is_lanes(const Activation& activation) {
  return dynamic_cast<const LanesFormat*>(activation.format.get()) != nullptr;
}

int block_count(const Shape& shape) {
  return (shape.batch + kernels()->lanes - 1) / kernels()->lanes;
}

Activation lanes_activation(const Shape& shape) {
  const auto images =
      static_cast<std::size_t>(block_count(shape)) * static_cast<std::size_t>(kernels()->lanes);
  return {shape, std::make_shared<LanesFormat>(), images * shape.sample_size()};
}

void pack(const Activation& plain, const float* from, float* to) {
  const int lanes = kernels()->lanes;
  const std::ptrdiff_t stored = stored_sample_size(plain);
  const auto block = static_cast<std::ptrdiff_t>(plain.shape.sample_size()) * lanes;
  for (int first = 0; first < plain.shape.batch; first += lanes, from += stored * lanes, to += block) {
    const int samples = std::min(lanes, plain.shape.batch - first);
    for_runs(plain, [&](std::ptrdiff_t at, std::ptrdiff_t place, int count) {
      kernels()->pack(from + at, stored, samples, count, to + place * lanes);
    });
  }
}

void unpack(const Activation& plain, const float* from, float* to) {
  const int lanes = kernels()->lanes;
  const std::ptrdiff_t stored = stored_sample_size(plain);
  const auto block = static_cast<std::ptrdiff_t>(plain.shape.sample_size()) * lanes;
  for (int first = 0; first < plain.shape.batch; first += lanes, from += block, to += stored * lanes) {
    const int samples = std::min(lanes, plain.shape.batch - first);
    for_runs(plain, [&](std::ptrdiff_t at, std::ptrdiff_t place, int count) {
      kernels()->unpack(from + place * lanes, samples, count, to + at, stored);
    });
  }
}

Entrance::Entrance(const Activation& input, Passes passes) : input_(input), plain_(!is_lanes(input)) {
  if (!plain_) return;
  const std::size_t floats = lanes_activation(input.shape).floats;
  x_ = Buffer(floats);
  if (passes.input_gradient) dx_ = Buffer(floats);
}

const float* Entrance::enter(const float* x) {
  if (plain_) pack(input_, x, x_.data());
  return entered(x);
}

void Entrance::leave(float* dx) {
  if (plain_) unpack(input_, dx_.data(), dx);
}

}  // namespace starling::kernels::cpu::lanes

#include "kernels/cpu/lanes/format.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu::lanes {
namespace {

// Calls f(offset of a run of floats in a plain sample, its offset in a sample of lanes, its length) for the
// whole sample, or for each row of a window.
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

// Calls f(floats of a plain sample, samples of the block, offset in the plain floats, offset in lanes,
// length) for the runs of all blocks.
template <class F>
void for_blocks(const Activation& plain, const F& f) {
  const int lanes = kernels()->lanes;
  const std::ptrdiff_t stored = static_cast<std::ptrdiff_t>(plain.floats) / plain.shape.batch;
  const auto sample = static_cast<std::ptrdiff_t>(plain.shape.sample_size());
  for (int first = 0; first < plain.shape.batch; first += lanes) {
    const int samples = std::min(lanes, plain.shape.batch - first);
    for_runs(plain, [&](std::ptrdiff_t at, std::ptrdiff_t place, int count) {
      f(stored, samples, first * stored + at, first * sample + place * lanes, count);
    });
  }
}

}  // namespace

const Kernels* kernels() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return &avx512::kKernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2::kKernels;
#endif
  return nullptr;
}

bool is_lanes(const Activation& activation) {
  return dynamic_cast<const LanesFormat*>(activation.format.get()) != nullptr;
}

int block_count(const Shape& shape) { return (shape.batch + kernels()->lanes - 1) / kernels()->lanes; }

Activation lanes_activation(const Shape& shape) {
  const auto images =
      static_cast<std::size_t>(block_count(shape)) * static_cast<std::size_t>(kernels()->lanes);
  return {shape, std::make_shared<LanesFormat>(), images * shape.sample_size()};
}

void pack(const Activation& plain, const float* from, float* to) {
  for_blocks(plain, [&](std::ptrdiff_t stored, int samples, std::ptrdiff_t at, std::ptrdiff_t block,
                        int count) { kernels()->pack(from + at, stored, samples, count, to + block); });
}

void unpack(const Activation& plain, const float* from, float* to) {
  for_blocks(plain, [&](std::ptrdiff_t stored, int samples, std::ptrdiff_t at, std::ptrdiff_t block,
                        int count) { kernels()->unpack(from + block, samples, count, to + at, stored); });
}

}  // namespace starling::kernels::cpu::lanes

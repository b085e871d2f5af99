// The racy loops (arena.h explains why they are sound). This file keeps them plain:
//  - functions that touch the floats are KEEP_RACY: ThreadSanitizer does not instrument them;
//  - GCC may not turn a loop into memcpy or memset, which ThreadSanitizer would intercept and which promise
//    nothing about the width of their stores;
//  - each loop is compiled for several processors, and the widest that runs is chosen at the program's start,
//    but not under a sanitizer, whose runtime is not ready then;
//  - a square root is the processor's vector instruction, which does not set errno (CMakeLists.txt).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-tree-loop-distribute-patterns")
#endif

#include "models/arena.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/aligned.h"
#include "base/check.h"
#include "base/large_pages.h"
#include "kernels/backend.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STARLING_UNSANITIZED 0
#else
#define STARLING_UNSANITIZED 1
#endif

#if STARLING_UNSANITIZED && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KEEP_RACY __attribute__((noinline, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KEEP_RACY __attribute__((noinline, no_sanitize("thread")))
#endif

namespace starling::models {
namespace {

// Passes over uncached memory wait for it, and a processor prefetches for each sequential stream. So long
// passes run in four streams, each over a quarter of the range: a core reads 11 GB/s in one stream and 15 in
// four.
constexpr std::size_t kStreams = 4, kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));
using Bits = std::int32_t __attribute__((vector_size(kLanes * sizeof(float))));

// The length of a stream; the rest after kStreams of them is the tail of the pass.
constexpr std::size_t stream_of(std::size_t n) { return n / (kStreams * kLanes) * kLanes; }

KEEP_RACY void copy_floats(const float* __restrict from, float* __restrict to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
}

// Also returns the largest magnitude. Floats without sign are ordered as their bits, infinity and NaN last.
KEEP_RACY float copy_and_look(const float* __restrict from, float* __restrict to, std::size_t n) {
  const std::size_t stream = stream_of(n);
  Bits lanes{};
  for (std::size_t i = 0; i < stream; i += kLanes) {
    for (std::size_t k = 0; k < kStreams; ++k) {
      const Lanes values = *reinterpret_cast<const Lanes*>(from + k * stream + i);
      const Bits bits = __builtin_bit_cast(Bits, values) & 0x7fffffff;
      lanes = bits > lanes ? bits : lanes;
      *reinterpret_cast<Lanes*>(to + k * stream + i) = values;
    }
  }
  std::int32_t largest = 0;
  for (std::size_t j = 0; j < kLanes; ++j) largest = lanes[j] > largest ? lanes[j] : largest;
  for (std::size_t i = kStreams * stream; i < n; ++i) {
    const float value = from[i];
    const std::int32_t bits = std::bit_cast<std::int32_t>(value) & 0x7fffffff;
    largest = bits > largest ? bits : largest;
    to[i] = value;
  }
  return std::bit_cast<float>(largest);
}

KEEP_RACY void add_floats(float* __restrict x, const float* __restrict delta, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] += delta[i];
}

// Each stream runs downwards, so that it meets the workers' passes, which run upwards, only once.
KEEP_RACY void mix_floats(float* __restrict x, const float* __restrict theirs, const float* __restrict own,
                          float w, std::size_t n) {
  const std::size_t stream = stream_of(n);
  for (std::size_t i = n; i-- > kStreams * stream;) x[i] += w * (theirs[i] - own[i]);
  for (std::size_t i = stream; i > 0;) {
    i -= kLanes;
    for (std::size_t k = 0; k < kStreams; ++k) {
      const std::size_t at = k * stream + i;
      *reinterpret_cast<Lanes*>(x + at) +=
          w * (*reinterpret_cast<const Lanes*>(theirs + at) - *reinterpret_cast<const Lanes*>(own + at));
    }
  }
}

KEEP_RACY void mix_floats_at(float* __restrict x, const std::uint32_t* places, const float* __restrict theirs,
                             const float* __restrict own, float w, float* __restrict mixed, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float value = x[places[i]] + w * (theirs[i] - own[i]);
    x[places[i]] = value;
    mixed[i] = value;
  }
}

// Requests the cache lines of x for writing. Another worker wrote them last; requesting each first for
// reading and then for writing takes twice as long.
void claim(const float* x, std::size_t n) {
#if defined(__x86_64__)
  for (std::size_t i = 0; i < n; i += 16) asm volatile("prefetchw %0" : : "m"(x[i]));
#else
  for (std::size_t i = 0; i < n; i += 16) __builtin_prefetch(x + i, 1);
#endif
}

// Calls f(begin, size) for one piece of x after another while the next one is prefetched.
constexpr std::size_t kPiece = 1024;
static_assert(kPiece % kernels::kDecayBlock == 0);
template <class F>
void in_pieces(const float* x, std::size_t n, const F& f) {
  claim(x, std::min(n, kPiece));
  for (std::size_t at = 0; at < n; at += kPiece) {
    const std::size_t next = at + kPiece;
    if (next < n) claim(x + next, std::min(n - next, kPiece));
    f(at, std::min(n - at, kPiece));
  }
}

// The update is rate (from_velocity v' + from_gradient g'): (1, 0) is plain momentum and (momentum, 1)
// Nesterov's, so that the choice is made outside the loop.
KEEP_RACY void sgd_floats(float* __restrict x, const float* __restrict gradient, float* __restrict velocity,
                          float rate, float momentum, float decay, float from_velocity, float from_gradient,
                          std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float value = x[i];
    const float g = gradient[i] + decay * value;
    const float v = momentum * velocity[i] + g;
    velocity[i] = v;
    x[i] = value - rate * (from_velocity * v + from_gradient * g);
  }
}

KEEP_RACY void sgd_along_floats(float* __restrict x, const float* __restrict gradient,
                                const float* __restrict velocity, float rate, float momentum, float decay,
                                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float value = x[i];
    x[i] = value - rate * (momentum * velocity[i] + gradient[i] + decay * value);
  }
}

// `rate` and `scale` correct for means that begin at zero.
KEEP_RACY void adamw_floats(float* __restrict x, const float* __restrict gradient, float* __restrict mean,
                            float* __restrict square, float rate, float scale, float beta1, float beta2,
                            float epsilon, float shrink, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradient[i];
    const float m = beta1 * mean[i] + (1 - beta1) * g;
    const float v = beta2 * square[i] + (1 - beta2) * (g * g);
    mean[i] = m;
    square[i] = v;
    const float value = x[i];
    x[i] = value - (rate * m / (std::sqrt(v) * scale + epsilon) + shrink * value);
  }
}

KEEP_RACY void follow_floats(const float* __restrict x, float* __restrict velocity, float* __restrict last,
                             float keep, float gain, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float value = x[i];
    velocity[i] = keep * velocity[i] + gain * (last[i] - value);
    last[i] = value;
  }
}

// The sum of squares, of a gradient and not of the arena. Each lane adds its elements in the same order on
// every processor, and the square of a float is exact in double.
KEEP_RACY double sum_of_squares(const float* values, std::size_t n) {
  using Sums = double __attribute__((vector_size(kLanes * sizeof(double))));
  const std::size_t stream = stream_of(n);
  Sums even{}, odd{};  // two, because an addition waits for the one before
  for (std::size_t i = 0; i < stream; i += kLanes) {
    for (std::size_t k = 0; k < kStreams; k += 2) {
      const Sums a = __builtin_convertvector(*reinterpret_cast<const Lanes*>(values + k * stream + i), Sums);
      const Sums b =
          __builtin_convertvector(*reinterpret_cast<const Lanes*>(values + (k + 1) * stream + i), Sums);
      even += a * a;
      odd += b * b;
    }
  }
  double sum = 0;
  for (std::size_t j = 0; j < kLanes; ++j) sum += even[j] + odd[j];
  for (std::size_t i = kStreams * stream; i < n; ++i) {
    const double value = values[i];
    sum += value * value;
  }
  return sum;
}

KEEP_RACY void scale_floats(const float* __restrict from, float gain, float* __restrict to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = gain * from[i];
}

// The gradient of one piece after another, times *gain: in the cache, so that steps need no factor.
class ScaledGradient {
 public:
  ScaledGradient(const float* floats, const float* gain)
      : floats_(floats), gain_(gain == nullptr ? 1 : *gain) {}
  const float* piece(std::size_t begin, std::size_t size) {
    if (gain_ == 1) return floats_ + begin;
    scale_floats(floats_ + begin, gain_, scaled_.data(), size);
    return scaled_.data();
  }

 private:
  const float* floats_;
  const float gain_;
  std::array<float, kPiece> scaled_;
};

// Calls f(begin, size, decays) for each run of blocks in [begin, begin + size) that all decay or all do not.
// REQUIRES: `begin` is a multiple of kDecayBlock.
template <class F>
void by_decay(const std::uint8_t* decays, std::size_t begin, std::size_t size, const F& f) {
  if (decays == nullptr) return f(begin, size, true);
  const std::size_t end = begin + size;
  const auto decays_at = [&](std::size_t i) { return decays[i / kernels::kDecayBlock] != 0; };
  for (std::size_t from = begin, to = begin; from < end; from = to) {
    while (to < end && decays_at(to) == decays_at(from)) to += kernels::kDecayBlock;
    to = std::min(to, end);
    f(from, to - from, decays_at(from));
  }
}

// Reads only the two vectors, not the arena.
float square_distance(const float* theirs, const float* own, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double difference = static_cast<double>(theirs[i]) - static_cast<double>(own[i]);
    sum += difference * difference;
  }
  return static_cast<float>(sum);
}

float largest_magnitude(const float* values, std::size_t n) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t bits = kernels::magnitude_bits(values[i]);
    largest = bits > largest ? bits : largest;
  }
  return std::bit_cast<float>(largest);
}

// Parameters in the host's memory, where a worker's queue has nothing to order.
class HostParameters final : public kernels::Parameters {
 public:
  explicit HostParameters(std::size_t size)
      : bytes_(size * sizeof(float)), floats_(reinterpret_cast<float*>(bytes_.bytes().data())) {
    // They save a tenth of the time of an exchange over tens of megabytes.
    request_large_pages(floats_, bytes_.size());
    std::fill_n(floats_, size, 0.0F);
  }
  explicit HostParameters(std::span<float> memory) : floats_(memory.data()) {}

  std::span<float> floats(std::size_t offset, std::size_t count) { return {at(offset), count}; }
  const float* data() const override { return floats_; }
  void wait() override {}

  float read(std::size_t offset, std::span<float> out) override {
    return copy_and_look(at(offset), out.data(), out.size());
  }
  void write(std::size_t offset, std::span<const float> values) override {
    copy_floats(values.data(), at(offset), values.size());
  }
  void add(std::size_t offset, std::span<const float> delta) override {
    add_floats(at(offset), delta.data(), delta.size());
  }
  void atomic_add(std::size_t offset, std::span<const float> delta) override {
    for (std::size_t i = 0; i < delta.size(); ++i) {
      std::atomic_ref<float>(at(offset)[i]).fetch_add(delta[i], std::memory_order_relaxed);
    }
  }
  void mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own, float w) override {
    mix_floats(at(offset), theirs.data(), own.data(), w, own.size());
  }
  void mix_at(std::size_t offset, std::span<const std::uint32_t> places, std::span<const float> theirs,
              std::span<const float> own, float w, std::span<float> mixed) override {
    mix_floats_at(at(offset), places.data(), theirs.data(), own.data(), w, mixed.data(), places.size());
  }

  void add(kernels::Queue& /*queue*/, std::size_t offset, std::span<const float> delta) override {
    add(offset, delta);
  }
  void mix(kernels::Queue& /*queue*/, std::span<const float> theirs, std::span<const float> own, float w,
           kernels::MixMeasure* measure) override {
    mix(0, theirs, own, w);
    measure->distance_square += square_distance(theirs.data(), own.data(), own.size());
    const float largest = largest_magnitude(theirs.data(), theirs.size());
    if (kernels::magnitude_bits(largest) > kernels::magnitude_bits(measure->largest))
      measure->largest = largest;
  }
  void copy(kernels::Queue& /*queue*/, std::size_t offset, std::span<float> to) override {
    copy_floats(at(offset), to.data(), to.size());
  }

  void sgd(kernels::Queue& /*queue*/, std::span<const float> gradient, std::span<float> velocity,
           const kernels::SgdStep& step) override {
    ScaledGradient scaled(gradient.data(), step.gain);
    in_pieces(at(0), velocity.size(), [&](std::size_t begin, std::size_t size) {
      sgd_floats(at(begin), scaled.piece(begin, size), velocity.data() + begin, step.learning_rate,
                 step.momentum, step.weight_decay, step.nesterov ? step.momentum : 1.0F,
                 step.nesterov ? 1.0F : 0.0F, size);
    });
  }

  void adamw(kernels::Queue& /*queue*/, std::span<const float> gradient, std::span<float> mean,
             std::span<float> square, const kernels::AdamWStep& step, std::uint64_t t) override {
    const kernels::AdamWCorrections corrections(step, t);
    const float shrink = step.learning_rate * step.weight_decay;
    ScaledGradient scaled(gradient.data(), step.gain);
    in_pieces(at(0), mean.size(), [&](std::size_t begin, std::size_t size) {
      const float* const piece = scaled.piece(begin, size);
      by_decay(step.decays, begin, size, [&](std::size_t from, std::size_t count, bool decays) {
        adamw_floats(at(from), piece + (from - begin), mean.data() + from, square.data() + from,
                     corrections.rate, corrections.scale, step.beta1, step.beta2, step.epsilon,
                     decays ? shrink : 0.0F, count);
      });
    });
  }

  void sgd_along(kernels::Queue& /*queue*/, std::span<const float> gradient, std::span<const float> velocity,
                 const kernels::SgdStep& step) override {
    ScaledGradient scaled(gradient.data(), step.gain);
    in_pieces(at(0), velocity.size(), [&](std::size_t begin, std::size_t size) {
      sgd_along_floats(at(begin), scaled.piece(begin, size), velocity.data() + begin, step.learning_rate,
                       step.momentum, step.weight_decay, size);
    });
  }

  void clip(kernels::Queue& /*queue*/, std::span<const float> gradient, float limit,
            kernels::Clip* clip) override {
    clip->gain = kernels::clip_gain(sum_of_squares(gradient.data(), gradient.size()), limit);
  }

  void follow(kernels::Queue& /*queue*/, std::span<float> velocity, std::span<float> last, float keep,
              float gain) override {
    follow_floats(at(0), velocity.data(), last.data(), keep, gain, last.size());
  }

 private:
  float* at(std::size_t offset) { return floats_ + offset; }

  AlignedBytes bytes_;
  float* floats_;
};

}  // namespace

Arena::Arena(std::size_t size) : size_(size), parameters_(std::make_unique<HostParameters>(size)) {}

Arena::Arena(std::size_t size, const kernels::Backend& backend)
    : size_(size), parameters_(backend.make_parameters(size)) {
  if (!parameters_) parameters_ = std::make_unique<HostParameters>(size);
}

Arena::Arena(std::span<float> memory)
    : size_(memory.size()), parameters_(std::make_unique<HostParameters>(memory)) {}

Arena Arena::part(std::size_t offset, std::size_t count) {
  check(offset, count);
  auto* const host = dynamic_cast<HostParameters*>(parameters_.get());
  STARLING_CHECK(host != nullptr && offset % kLanes == 0);
  return Arena(host->floats(offset, count));
}

void Arena::check(std::size_t offset, std::size_t count) const {
  STARLING_CHECK(offset <= size_ && count <= size_ - offset);
}

float Arena::read(std::size_t offset, std::span<float> out) const {
  check(offset, out.size());
  return parameters_->read(offset, out);
}

std::optional<float> Arena::read_packed(std::size_t offset, std::size_t count, kernels::Packing packing,
                                        std::uint64_t seed, std::span<std::byte> out) const {
  check(offset, count);
  STARLING_CHECK(out.size() == kernels::packed_bytes(packing, count));
  return parameters_->read_packed(offset, count, packing, seed, out);
}

void Arena::write(std::size_t offset, std::span<const float> values) {
  check(offset, values.size());
  parameters_->write(offset, values);
}

void Arena::add(std::size_t offset, std::span<const float> delta) {
  check(offset, delta.size());
  parameters_->add(offset, delta);
}

void Arena::atomic_add(std::size_t offset, std::span<const float> delta) {
  check(offset, delta.size());
  parameters_->atomic_add(offset, delta);
}

void Arena::mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own, float w) {
  check(offset, theirs.size());
  STARLING_CHECK(own.size() == theirs.size());
  parameters_->mix(offset, theirs, own, w);
}

void Arena::mix_at(std::size_t offset, std::span<const std::uint32_t> places, std::span<const float> theirs,
                   std::span<const float> own, float w, std::span<float> mixed) {
  const std::size_t n = places.size();
  STARLING_CHECK(offset <= size_ && theirs.size() == n && own.size() == n && mixed.size() == n);
  STARLING_CHECK(n == 0 || *std::max_element(places.begin(), places.end()) < size_ - offset);
  parameters_->mix_at(offset, places, theirs, own, w, mixed);
}

void Arena::mix(std::span<const float> theirs, std::span<const float> own, float w, MixMeasure* measure,
                kernels::Queue& queue) {
  check(0, theirs.size());
  STARLING_CHECK(own.size() == theirs.size() && measure != nullptr);
  parameters_->mix(queue, theirs, own, w, measure);
}

void Arena::add(std::size_t offset, std::span<const float> delta, kernels::Queue& queue) {
  check(offset, delta.size());
  parameters_->add(queue, offset, delta);
}

void Arena::copy(std::size_t offset, std::span<float> to, kernels::Queue& queue) const {
  check(offset, to.size());
  parameters_->copy(queue, offset, to);
}

void Arena::sgd(std::span<const float> gradient, std::span<float> velocity, const SgdStep& step,
                kernels::Queue& queue) {
  check(0, velocity.size());
  STARLING_CHECK(gradient.size() == velocity.size());
  parameters_->sgd(queue, gradient, velocity, step);
}

void Arena::adamw(std::span<const float> gradient, std::span<float> mean, std::span<float> square,
                  const AdamWStep& step, std::uint64_t t, kernels::Queue& queue) {
  check(0, mean.size());
  STARLING_CHECK(gradient.size() == mean.size() && square.size() == mean.size() && t > 0);
  parameters_->adamw(queue, gradient, mean, square, step, t);
}

void Arena::sgd_along(std::span<const float> gradient, std::span<const float> velocity, const SgdStep& step,
                      kernels::Queue& queue) {
  check(0, velocity.size());
  STARLING_CHECK(gradient.size() == velocity.size());
  parameters_->sgd_along(queue, gradient, velocity, step);
}

void Arena::clip(std::span<const float> gradient, float limit, Clip* clip, kernels::Queue& queue) const {
  STARLING_CHECK(limit > 0 && clip != nullptr);
  parameters_->clip(queue, gradient, limit, clip);
}

void Arena::follow(std::span<float> velocity, std::span<float> last, float keep, float gain,
                   kernels::Queue& queue) const {
  check(0, velocity.size());
  STARLING_CHECK(last.size() == velocity.size());
  parameters_->follow(queue, velocity, last, keep, gain);
}

}  // namespace starling::models

// A replica's floats in the memory of a back end's device, the implementation of models::Arena
// (models/arena.h defines each function and explains why races are sound). Workers call the functions with a
// queue: their spans are in the device's memory, and they are done in the queue's order. All others call the
// functions without: their spans are on the host, and any number of threads may call them at once. All throw
// DeviceError if the device failed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/packing.h"
#include "kernels/queue.h"

namespace starling::kernels {

// In all formulas of steps, g is the gradient times *gain. A step's pointers are in the memory of the
// parameters' device.

// g' = g + weight_decay x; v = momentum v + g'; x -= learning_rate (nesterov ? g' + momentum v : v).
struct SgdStep {
  float learning_rate;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
  const float* gain = nullptr;  // null: 1
};

// Parameters decay, or not, in blocks of this many floats.
inline constexpr std::size_t kDecayBlock = 16;

// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// x -= learning_rate (m^ / (sqrt(v^) + epsilon) + weight_decay x), where m^ = m / (1 - beta1^t) and
// v^ = v / (1 - beta2^t) in the t-th step: Adam with decoupled weight decay (Loshchilov and Hutter,
// "Decoupled weight decay regularization", ICLR 2019, algorithm 2).
struct AdamWStep {
  float learning_rate;
  float beta1 = 0.9F, beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
  const float* gain = nullptr;           // null: 1
  const std::uint8_t* decays = nullptr;  // for each block whether it decays; null: all do
};

// The result of clip(), in the memory of the parameters' device.
struct Clip {
  static constexpr std::size_t kSums = 1024;

  float gain = 1;
  double sums[kSums];  // of parts of the gradient, for a device
};

// Clipping by the global norm (Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural
// networks", ICML 2013): the factor that makes a gradient no longer than `limit`, from the sum of its
// squares. 1e-6 is added to the norm, as PyTorch does. If the norm is not finite the factor is 1, so that the
// gradient stays not finite.
inline float clip_gain(double square_sum, float limit) {
  const double norm = std::sqrt(square_sum), gain = static_cast<double>(limit) / (norm + 1e-6);
  return std::isfinite(norm) && gain < 1 ? static_cast<float>(gain) : 1.0F;
}

// The factors of the t-th step. REQUIRES: t > 0.
struct AdamWCorrections {
  AdamWCorrections(const AdamWStep& step, std::uint64_t t)
      : rate(static_cast<float>(static_cast<double>(step.learning_rate) / rest_of(step.beta1, t))),
        scale(static_cast<float>(1 / std::sqrt(rest_of(step.beta2, t)))) {}
  float rate;   // learning_rate / (1 - beta1^t)
  float scale;  // 1 / sqrt(1 - beta2^t), for the root of v

 private:
  static double rest_of(float beta, std::uint64_t t) {
    return 1 - std::pow(static_cast<double>(beta), static_cast<double>(t));
  }
};

// Measures the difference of a mix: the sum of (theirs - own)^2, and the largest magnitude of theirs, where
// NaN is larger than infinity.
struct MixMeasure {
  float distance_square = 0;
  float largest = 0;
};

class Parameters {
 public:
  virtual ~Parameters() = default;

  // In the device's memory.
  virtual const float* data() const = 0;

  // Waits until the changes by functions without a queue are done; these may return earlier.
  virtual void wait() = 0;

  virtual float read(std::size_t offset, std::span<float> out) = 0;
  virtual std::optional<float> read_packed(std::size_t /*offset*/, std::size_t /*count*/, Packing /*packing*/,
                                           std::uint64_t /*seed*/, std::span<std::byte> /*out*/) {
    return std::nullopt;  // the caller packs
  }
  virtual void write(std::size_t offset, std::span<const float> values) = 0;
  virtual void add(std::size_t offset, std::span<const float> delta) = 0;
  virtual void atomic_add(std::size_t offset, std::span<const float> delta) = 0;
  virtual void mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own,
                   float w) = 0;
  virtual void mix_at(std::size_t offset, std::span<const std::uint32_t> places,
                      std::span<const float> theirs, std::span<const float> own, float w,
                      std::span<float> mixed) = 0;

  virtual void add(Queue& queue, std::size_t offset, std::span<const float> delta) = 0;
  virtual void sgd(Queue& queue, std::span<const float> gradient, std::span<float> velocity,
                   const SgdStep& step) = 0;
  virtual void adamw(Queue& queue, std::span<const float> gradient, std::span<float> mean,
                     std::span<float> square, const AdamWStep& step, std::uint64_t t) = 0;
  virtual void sgd_along(Queue& queue, std::span<const float> gradient, std::span<const float> velocity,
                         const SgdStep& step) = 0;
  // clip->gain = clip_gain(). The sum is in double and in an order that depends only on the gradient's
  // length.
  virtual void clip(Queue& queue, std::span<const float> gradient, float limit, Clip* clip) = 0;
  virtual void follow(Queue& queue, std::span<float> velocity, std::span<float> last, float keep,
                      float gain) = 0;
  // x += w (theirs - own), from the first float on. Updates *measure, which is in the device's memory.
  virtual void mix(Queue& queue, std::span<const float> theirs, std::span<const float> own, float w,
                   MixMeasure* measure) = 0;
  // to = x. REQUIRES: offset + to.size() <= the number of floats.
  virtual void copy(Queue& queue, std::size_t offset, std::span<float> to) = 0;
};

}  // namespace starling::kernels

// A back end: the interface between networks and the hardware. It provides memory and queues, makes
// operations for fixed shapes, may fuse consecutive ones, and chooses the format of activations between them.
// A Backend is immutable; any thread may use it. An operation runs in the order of its queue; all its
// pointers are to the back end's memory. Only networks (models/network.h) request operations.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/averager.h"
#include "kernels/memory.h"
#include "kernels/operation.h"
#include "kernels/parameters.h"
#include "kernels/queue.h"
#include "kernels/samples.h"

namespace starling::kernels {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // The memory of its values, and host memory that its queues copy from and to fastest.
  virtual Memory& memory() const { return host_memory(); }
  virtual Memory& staging() const { return host_memory(); }
  virtual std::unique_ptr<Queue> make_queue() const { return make_host_queue(); }
  // `floats` zeros; null if models::Arena keeps them on the host.
  virtual std::unique_ptr<Parameters> make_parameters(std::size_t /*floats*/) const { return nullptr; }
  // A copy of the samples on the device; null if the host assembles batches, for lack of a device or of its
  // memory.
  virtual std::unique_ptr<Samples> keep(const SampleView& /*samples*/) const { return nullptr; }

  // The format of a plain batch [batch, channels, height, width] of the caller. The first operation reads the
  // upper left `height` x `width` of each image. REQUIRES: height and width are at most `stored`'s.
  virtual Activation input(const Shape& stored, int height, int width) const = 0;

  // An operation for rest[0] and for as many of the following specs as the back end can fuse; for no specs,
  // on the host, one from another format to plain. REQUIRES: rest[0] fits `input`, which is from this back
  // end.
  virtual std::unique_ptr<Operation> make(Queue& queue, std::span<const OperationSpec> rest,
                                          const Activation& input, Passes passes) const = 0;

  // REQUIRES: a and b have the same shape and are from this back end. The sum is in the format of a, or plain
  // if that is a window of larger images.
  virtual std::unique_ptr<Sum> make_sum(Queue& queue, const Activation& a, const Activation& b,
                                        bool relu) const = 0;

  virtual std::unique_ptr<Loss> softmax_cross_entropy(Queue& queue, const Activation& logits) const = 0;

  // gradient += more, for a value that several operations read; both in the activation's format.
  virtual void accumulate(Queue& queue, const Activation& activation, float* gradient,
                          const float* more) const = 0;

  // out = x + w (theirs - own). All have the same length and are in its memory; `out` may be `x`.
  virtual void mix(Queue& /*queue*/, std::span<float> out, std::span<const float> x,
                   std::span<const float> theirs, std::span<const float> own, float w) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = x[i] + w * (theirs[i] - own[i]);
  }
  // For these back ends, this one first; null if they can only communicate through the host.
  virtual std::unique_ptr<Averager> make_averager(const std::vector<const Backend*>& /*backends*/) const {
    return nullptr;
  }

  // Between a plain array of activation.shape.size() floats and this back end's format, both in its memory.
  // Not for the hot path.
  virtual void pack(Queue& queue, const Activation& activation, const float* plain, float* stored) const = 0;
  virtual void unpack(Queue& queue, const Activation& activation, const float* stored,
                      float* plain) const = 0;
};

// The number format in which convolutions and linear layers multiply, and of the values between layers.
// Parameters, their gradients and all sums are float32 (Micikevicius et al., "Mixed precision training", ICLR
// 2018; Kalamkar et al., "A study of BFLOAT16 for deep learning training", 2019). tf32: a GPU's tensor cores
// round factors to 10 bits of mantissa.
enum class Precision { f32, bf16, tf32 };

}  // namespace starling::kernels

// A back end: the seam between networks and the hardware. It hands out memory and queues, is asked for one
// operation after another for fixed shapes, is shown all that is to come so that it may do several in one, and
// decides in what format activations pass between them. A Backend is immutable; any thread may ask it.
// Operations are made for a queue and run in its order; all pointers they are given lie in the back end's
// memory. Networks (models/network.h) ask for operations, and nothing above.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/averager.h"
#include "kernels/loss.h"
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

  // Where its values lie, and memory of the host from which and to which queues copy best.
  virtual Memory& memory() const { return host_memory(); }
  virtual Memory& staging() const { return host_memory(); }
  virtual std::unique_ptr<Queue> make_queue() const { return make_host_queue(); }
  // `floats` of them, zero; null where they are the host's, which models::Arena keeps by itself.
  virtual std::unique_ptr<Parameters> make_parameters(std::size_t /*floats*/) const { return nullptr; }
  // A copy of the samples on the device; null where batches are better put together by the host: there is no
  // device, or it has not the room.
  virtual std::unique_ptr<Samples> keep(const SampleView& /*samples*/) const { return nullptr; }

  // A plain batch [batch, channels, height, width] as the caller has it, of which the first operation reads
  // the upper left `height` x `width` of each image. REQUIRES: stored and used agree but for the extents,
  // used <= stored.
  virtual Activation input(const Shape& stored, int height, int width) const = 0;

  // An operation that does rest[0], and as many of the specs behind it as the back end does in one go.
  // REQUIRES: rest is not empty, rest[0] fits `input`, which came from this back end.
  virtual std::unique_ptr<Operation> make(Queue& queue, std::span<const OperationSpec> rest,
                                          const Activation& input, Passes passes) const = 0;

  // REQUIRES: a and b have one shape and came from this back end. The sum is in a's format, or plain
  // where that is a window of larger images.
  virtual std::unique_ptr<Sum> make_sum(Queue& queue, const Activation& a, const Activation& b,
                                        bool relu) const = 0;

  virtual std::unique_ptr<Loss> softmax_cross_entropy(Queue& queue, const Activation& logits) const = 0;

  // gradient += more, for gradients of a value that several operations read; both in the activation's format.
  virtual void accumulate(Queue& queue, const Activation& activation, float* gradient,
                          const float* more) const = 0;

  // out = x + w (theirs - own), all as long and in its memory; `out` may be `x`.
  virtual void mix(Queue& /*queue*/, std::span<float> out, std::span<const float> x, std::span<const float> theirs,
                   std::span<const float> own, float w) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = x[i] + w * (theirs[i] - own[i]);
  }
  // For back ends of which this is the first; null where they know no way to each other but through the host.
  virtual std::unique_ptr<Averager> make_averager(const std::vector<const Backend*>& /*backends*/) const {
    return nullptr;
  }

  // Between a plain array of activation.shape.size() floats and this back end's format, both in its memory.
  // Not for the hot path.
  virtual void pack(Queue& queue, const Activation& activation, const float* plain, float* stored) const = 0;
  virtual void unpack(Queue& queue, const Activation& activation, const float* stored,
                      float* plain) const = 0;
};

// What convolutions and linear layers multiply, and what passes between them; parameters, their gradients and
// all sums are float32 either way (Micikevicius et al., "Mixed precision training", ICLR 2018; Kalamkar et
// al., "A study of BFLOAT16 for deep learning training", 2019).
// tf32: factors rounded to 10 bits of mantissa, by a GPU's tensor cores.
enum class Precision { f32, bf16, tf32 };

}  // namespace starling::kernels

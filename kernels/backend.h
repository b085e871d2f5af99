// A back end: the seam between networks and the hardware. It is asked for one operation after another for
// fixed shapes, is shown all that is to come so that it may do several in one, and decides in what format
// activations pass between them. A Backend is immutable; any thread may ask it. Networks (models/network.h)
// call it, and nothing above.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/loss.h"
#include "kernels/operation.h"

namespace starling::kernels {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // A plain batch [batch, channels, height, width] as the caller has it, of which the first operation reads
  // the upper left `height` x `width` of each image. REQUIRES: stored and used agree but for the extents,
  // used <= stored.
  virtual Activation input(const Shape& stored, int height, int width) const = 0;

  // An operation that does rest[0], and as many of the specs behind it as the back end does in one go.
  // REQUIRES: rest is not empty, rest[0] fits `input`, which came from this back end.
  virtual std::unique_ptr<Operation> make(std::span<const OperationSpec> rest, const Activation& input,
                                          Passes passes) const = 0;

  // REQUIRES: a and b have one shape and came from this back end. The sum is in a's format, or plain
  // where that is a window of larger images.
  virtual std::unique_ptr<Sum> make_sum(const Activation& a, const Activation& b, bool relu) const = 0;

  virtual std::unique_ptr<Loss> softmax_cross_entropy(const Activation& logits) const = 0;

  // gradient += more, for gradients of a value that several operations read; both in the activation's format.
  virtual void accumulate(const Activation& activation, float* gradient, const float* more) const = 0;

  // Between a plain array of activation.shape.size() floats and this back end's format. Not for the hot path.
  virtual void pack(const Activation& activation, const float* plain, float* stored) const = 0;
  virtual void unpack(const Activation& activation, const float* stored, float* plain) const = 0;
};

// "cpu" or "reference"; another name is an Error that says what is accepted.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name);
const std::vector<std::string>& backend_names();

}  // namespace starling::kernels

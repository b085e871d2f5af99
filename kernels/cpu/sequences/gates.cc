#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/cpu/sequences/operations.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

using namespace sequences;  // NOLINT: the loops that this file is about

class HostSwiglu final : public Operation {
 public:
  explicit HostSwiglu(const Activation& input)
      : Operation(plain_activation(output_shape(SwigluSpec{}, input.shape)), 1),
        features_(output().shape.channels),
        x_(input, plain_activation(input.shape)),
        dx_(plain_activation(input.shape), input) {}

  void forward(const float*, const float* x, float* y) override {
    x = x_.convert(x);
    for (std::ptrdiff_t n = 0; n < output().shape.batch; ++n) {
      const float* a = x + 2 * n * features_;
      loops().swiglu(features_, a, a + features_, y + n * features_);
    }
  }
  void backward(const float*, const float* x, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    x = x_.converted(x);
    float* to = dx_.target(dx);
    for (std::ptrdiff_t n = 0; n < output().shape.batch; ++n) {
      const std::ptrdiff_t at = 2 * n * features_;
      loops().swiglu_gradient(features_, x + at, x + at + features_, dy + n * features_, to + at,
                              to + at + features_);
    }
    dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes() + dx_.workspace_bytes(); }

 private:
  int features_;
  Conversion x_, dx_;
};

}  // namespace

std::unique_ptr<Operation> make_swiglu(const Activation& input) {
  return std::make_unique<HostSwiglu>(input);
}

}  // namespace starling::kernels::cpu

#include <algorithm>

#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/cpu/sequences/operations.h"
#include "kernels/cpu/vectors/vector_loops.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

using namespace sequences;  // NOLINT: the loops that this file is about

// Three products of matrices, for x [batch, in] and weight [out, in]: y = x weightᵀ, dx = dy weight and
// dweight = dyᵀ x.
class TextLinear final : public Operation {
 public:
  TextLinear(const LinearSpec& spec, const Activation& input, Passes passes, bool relu)
      : Operation(plain_activation(output_shape(spec, input.shape)), relu ? 2 : 1),
        spec_(spec),
        relu_(relu),
        batch_(input.shape.batch),
        in_(static_cast<int>(input.shape.sample_size())),
        x_(input, plain_activation(input.shape)),
        dx_(passes.input_gradient ? Conversion(plain_activation(input.shape), input) : Conversion()) {}

  void forward(const float* parameters, const float* x, float* y) override {
    const int out = spec_.features;
    loops().multiply_large(
        {batch_, out, in_, x_.convert(x), in_, 1, parameters + spec_.weight, 1, in_, y, out, room_});
    if (spec_.bias != kNone) {
      for (std::ptrdiff_t n = 0; n < batch_; ++n) loops().add(out, y + n * out, parameters + spec_.bias);
    }
    if (relu_) relu(y, y, output().floats);
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    const int out = spec_.features;
    if (relu_) mask_where_not_positive(y, dy, dy, output().floats);
    loops().multiply_large(
        {out, in_, batch_, dy, 1, out, x_.converted(x), in_, 1, gradient + spec_.weight, in_, room_});
    if (spec_.bias != kNone) {
      float* dbias = gradient + spec_.bias;
      std::copy_n(dy, out, dbias);
      for (std::ptrdiff_t n = 1; n < batch_; ++n) loops().add(out, dbias, dy + n * out);
    }
    if (dx == nullptr) return;
    loops().multiply_large(
        {batch_, in_, out, dy, out, 1, parameters + spec_.weight, in_, 1, dx_.target(dx), in_, room_});
    dx_.finish(dx);
  }
  bool keeps_dy() const override { return !relu_; }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes() + dx_.workspace_bytes(); }
  std::size_t scratch_floats() const override { return LargeProduct::kRoom; }
  void set_scratch(float* scratch) override { room_ = scratch; }

 private:
  LinearSpec spec_;
  bool relu_;
  int batch_, in_;
  Conversion x_, dx_;
  float* room_ = nullptr;
};

}  // namespace

bool suits_text_linear(const LinearSpec& spec, const Activation& input) {
  constexpr int kManyVectors = 64;  // fewer do not pay for packing the weights
  return loops().multiplies_texts() && spec.tokens && input.shape.batch >= kManyVectors;
}

std::unique_ptr<Operation> make_text_linear(const LinearSpec& spec, const Activation& input, Passes passes,
                                            bool relu) {
  return std::make_unique<TextLinear>(spec, input, passes, relu);
}

}  // namespace starling::kernels::cpu

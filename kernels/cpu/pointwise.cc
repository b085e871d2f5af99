#include "kernels/cpu/operations.h"

#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/cpu/vectors/vector_loops.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

// Elementwise over the stored values, of T: padding stays 0.
template <class T>
class ElementwiseRelu final : public Operation {
 public:
  ElementwiseRelu(const Activation& input, const memory::desc& dense)
      : Operation(activation(input.shape, dense), 1),
        x_(describe(input), dense),
        dx_(dense, describe(input)),
        size_(stored<T>(output())) {}

  void forward(const float*, const float* x, float* y) override {
    relu(values<T>(x_.convert(x)), values<T>(y), size_);
  }

  void backward(const float*, const float*, const float* y, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    mask_where_not_positive(values<T>(y), values<T>(dy), values<T>(dx_.target(dx)), size_);
    dx_.finish(dx);
  }
  bool works_in_place() const override { return !dx_.needed(); }
  bool keeps_dy() const override { return true; }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes() + dx_.workspace_bytes(); }

 private:
  Reorder x_, dx_;
  std::size_t size_;
};

// GELU over the stored values, in float32: padding stays 0.
class ElementwiseGelu final : public Operation {
 public:
  ElementwiseGelu(const GeluSpec& spec, const Activation& input)
      : Operation(
            is_bf16(input) ? plain_activation(input.shape) : activation(input.shape, dense_format(input)), 1),
        tanh_(spec.tanh),
        x_(input, output()),
        dx_(output(), input) {}

  void forward(const float*, const float* x, float* y) override {
    const auto& loops = sequences::loops();
    (tanh_ ? loops.tanh_gelu : loops.gelu)(output().floats, x_.convert(x), y);
  }

  void backward(const float*, const float* x, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    const auto& loops = sequences::loops();
    (tanh_ ? loops.tanh_gelu_gradient : loops.gelu_gradient)(output().floats, x_.converted(x), dy,
                                                             dx_.target(dx));
    dx_.finish(dx);
  }
  bool works_in_place() const override { return !dx_.needed(); }
  bool keeps_dy() const override { return true; }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes() + dx_.workspace_bytes(); }

 private:
  bool tanh_;
  Conversion x_, dx_;
};

// The exact form in bfloat16.
class OneDnnGelu final : public Operation {
 public:
  OneDnnGelu(const Activation& input, const memory::desc& dense, Passes passes)
      : Operation(activation(input.shape, dense), 1),
        x_(describe(input), dense),
        dx_(dense, describe(input)) {
    const GeluForward forward = make_gelu_forward(passes.backward, dense);
    forward_ = Primitive(forward);
    forward_.argument(DNNL_ARG_SRC, dense).argument(DNNL_ARG_DST, dense);
    if (!passes.backward || !passes.input_gradient) return;
    backward_ = Primitive(make_gelu_backward(dense, forward));
    backward_.argument(DNNL_ARG_SRC, dense)
        .argument(DNNL_ARG_DIFF_DST, dense)
        .argument(DNNL_ARG_DIFF_SRC, dense);
  }

  void forward(const float*, const float* x, float* y) override { forward_.run({x_.convert(x), y}); }

  void backward(const float*, const float* x, const float*, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    backward_.run({x_.converted(x), dy, dx_.target(dx)});
    dx_.finish(dx);
  }
  bool works_in_place() const override { return !dx_.needed(); }
  bool keeps_dy() const override { return true; }

  std::size_t workspace_bytes() const override {
    return x_.workspace_bytes() + dx_.workspace_bytes() + forward_.workspace_bytes() +
           backward_.workspace_bytes();
  }

 private:
  Reorder x_, dx_;
  Primitive forward_, backward_;
};

}  // namespace

std::unique_ptr<Operation> make_relu(const Activation& input) {
  if (is_bf16(input)) return std::make_unique<ElementwiseRelu<Bfloat16>>(input, describe(input));
  return std::make_unique<ElementwiseRelu<float>>(input, dense_format(input));
}

std::unique_ptr<Operation> make_gelu(const GeluSpec& spec, const Activation& input, Passes passes) {
  if (is_bf16(input) && !spec.tanh) return std::make_unique<OneDnnGelu>(input, dense_format(input), passes);
  return std::make_unique<ElementwiseGelu>(spec, input);
}

}  // namespace starling::kernels::cpu

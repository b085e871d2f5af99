#include "kernels/cpu/operations.h"

#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/cpu/vectors/vector_loops.h"

namespace starling::kernels::cpu {
namespace {

// With Type::bf16, x, dx and dy are bfloat16, and so is a copy of the weights that forward() makes for both
// passes; y is `y_type`.
class OneDnnLinear final : public Operation {
 public:
  OneDnnLinear(const LinearSpec& spec, const Activation& input, Passes passes, bool relu, Type type,
               Type y_type)
      : Operation(activation(output_shape(spec, input.shape),
                             plain_format({input.shape.batch, spec.features, 1, 1}, y_type)),
                  relu ? 2 : 1),
        spec_(spec),
        in_(static_cast<int>(input.shape.sample_size())),
        relu_(relu),
        x_(describe(input), plain_format(image_dims(input.shape), type)),
        dx_(plain_format(image_dims(input.shape), type), describe(input)) {
    const memory::dim batch = input.shape.batch, in = in_;
    const memory::desc x = plain_format({batch, in}, type);
    const memory::desc weight = plain_format({spec.features, in}, type);
    const memory::desc dweight = plain_format({spec.features, in});
    const bool biased = spec.bias != kNone;
    const memory::desc bias = biased ? plain_format({spec.features}) : memory::desc();
    const memory::desc y = plain_format({batch, spec.features}, y_type);
    const memory::desc dy = plain_format({batch, spec.features}, type);
    weight_ = Reorder(dweight, weight);
    dy_ = Reorder(y, dy);
    // The library multiplies many vectors faster by transposed weights, by more than it takes to transpose
    // them.
    constexpr int kManyVectors = 512;
    transposes_ = type == Type::f32 && batch >= kManyVectors;
    const memory::desc transposed({spec.features, in}, type, memory::dims{1, spec.features});
    const memory::desc& read = transposes_ ? transposed : weight;
    const LinearForward forward = make_linear_forward(passes.backward, x, read, bias, y, relu);
    forward_ = Primitive(forward);
    forward_.argument(DNNL_ARG_SRC, x).argument(DNNL_ARG_WEIGHTS, read).argument(DNNL_ARG_DST, y);
    if (biased) forward_.argument(DNNL_ARG_BIAS, bias);
    if (!passes.backward) return;
    backward_weights_ = Primitive(make_linear_backward_weights(x, dweight, bias, dy, forward));
    backward_weights_.argument(DNNL_ARG_SRC, x)
        .argument(DNNL_ARG_DIFF_DST, dy)
        .argument(DNNL_ARG_DIFF_WEIGHTS, dweight);
    if (biased) backward_weights_.argument(DNNL_ARG_DIFF_BIAS, bias);
    if (!passes.input_gradient) return;
    backward_data_ = Primitive(make_linear_backward_data(x, weight, dy, forward));
    backward_data_.argument(DNNL_ARG_DIFF_DST, dy)
        .argument(DNNL_ARG_WEIGHTS, weight)
        .argument(DNNL_ARG_DIFF_SRC, x);
  }

  void forward(const float* parameters, const float* x, float* y) override {
    const float *in = x_.convert(x), *weight = weight_.convert(parameters + spec_.weight);
    if (transposes_) {
      sequences::loops().transpose(spec_.features, in_, weight, in_, 1, transposed_, spec_.features);
      weight = transposed_;
    }
    if (spec_.bias == kNone) return forward_.run({in, weight, y});
    forward_.run({in, weight, y, parameters + spec_.bias});
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    if (relu_) mask_where_not_positive(output(), y, dy);
    const float* out = dy_.convert(dy);
    if (spec_.bias == kNone) {
      backward_weights_.run({x_.converted(x), out, gradient + spec_.weight});
    } else {
      backward_weights_.run({x_.converted(x), out, gradient + spec_.weight, gradient + spec_.bias});
    }
    if (dx == nullptr) return;
    backward_data_.run({out, weight_.converted(parameters + spec_.weight), dx_.target(dx)});
    dx_.finish(dx);
  }
  bool keeps_dy() const override { return !relu_; }

  std::size_t workspace_bytes() const override {
    return forward_.workspace_bytes() + backward_weights_.workspace_bytes() +
           backward_data_.workspace_bytes() + x_.workspace_bytes() + dx_.workspace_bytes() +
           weight_.workspace_bytes() + dy_.workspace_bytes();
  }
  std::size_t scratch_floats() const override {
    return transposes_ ? static_cast<std::size_t>(spec_.features) * static_cast<std::size_t>(in_) : 0;
  }
  void set_scratch(float* scratch) override { transposed_ = scratch; }

 private:
  LinearSpec spec_;
  int in_;
  bool relu_;
  bool transposes_ = false;      // the weights, for the forward pass
  float* transposed_ = nullptr;  // [in, out]
  Reorder x_, dx_, weight_, dy_;
  Primitive forward_, backward_weights_, backward_data_;
};

}  // namespace

std::unique_ptr<Operation> make_linear(const LinearSpec& spec, const Activation& input, Passes passes,
                                       bool relu, Type type, Type y_type) {
  return std::make_unique<OneDnnLinear>(spec, input, passes, relu, type, y_type);
}

}  // namespace starling::kernels::cpu

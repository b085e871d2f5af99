#include "kernels/cpu/operations.h"

#include <algorithm>

#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/tiles/stack.h"
#include "kernels/cpu/vectors/vector_loops.h"

namespace starling::kernels::cpu {
namespace {

// Where Winograd was faster: twice as fast from 64 channels at 32x32 to 256 at 8x8, but not with 512 at 4x4,
// where moving the transformed weights takes the time.
bool suits_winograd(const ConvolutionSpec& spec, const Shape& in) {
  return spec.kernel == 3 && spec.stride == 1 && spec.groups == 1 && in.channels % 16 == 0 &&
         spec.channels % 16 == 0 && in.channels >= 32 && spec.channels >= 32 && spec.height >= 8 &&
         spec.width >= 8;
}

ConvolutionGeometry geometry(const ConvolutionSpec& spec, const Shape& in, Type type) {
  // Padding below and right: as far as the outputs reach beyond the input.
  const auto end = [&](int outputs, int extent) {
    return memory::dim{std::max((outputs - 1) * spec.stride + spec.kernel - spec.padding - extent, 0)};
  };
  return {{spec.stride, spec.stride},
          {spec.padding, spec.padding},
          {end(spec.height, in.height), end(spec.width, in.width)},
          type == Type::f32 && suits_winograd(spec, in)};
}

// Whether the first or the last window is entirely outside the input, where oneDNN 2.6's products of bfloat16
// crash.
bool has_empty_windows(const ConvolutionSpec& spec, const Shape& in) {
  const auto empty = [&](int outputs, int extent) {
    return spec.padding >= spec.kernel || (outputs - 1) * spec.stride - spec.padding >= extent;
  };
  return empty(spec.height, in.height) || empty(spec.width, in.width);
}

memory::dims weight_dims(const ConvolutionSpec& spec, const Shape& in) {
  if (spec.groups == 1) return {spec.channels, in.channels, spec.kernel, spec.kernel};
  return {spec.groups, spec.channels / spec.groups, in.channels / spec.groups, spec.kernel, spec.kernel};
}

memory::desc bias_format(const ConvolutionSpec& spec) {
  return spec.bias == kNone ? memory::desc() : plain_format({spec.channels});
}

// oneDNN chooses the formats of x, y and the weights for the forward pass; x and y have them in the backward
// passes too. Plain weights are reordered for each pass that needs another format. With Type::bf16, x, y,
// their gradients and the reordered weights are bfloat16; sums, bias and parameters' gradients are float32.
class OneDnnConvolution final : public Operation {
 public:
  OneDnnConvolution(const ConvolutionSpec& spec, const Shape& in, const memory::desc& in_format,
                    const ConvForward& forward, const Activation& out, Passes passes, bool relu, Type type)
      : Operation(out, relu ? 2 : 1),
        spec_(spec),
        relu_(relu),
        type_(type),
        x_(in_format, forward.src_desc()),
        y_(forward.dst_desc(), describe(out)),
        weight_(plain_format(weight_dims(spec, in)), forward.weights_desc(), Scratchpad::shared),
        forward_(forward, Scratchpad::shared) {
    forward_.argument(DNNL_ARG_SRC, forward.src_desc())
        .argument(DNNL_ARG_WEIGHTS, forward.weights_desc())
        .argument(DNNL_ARG_DST, forward.dst_desc());
    if (biased()) forward_.argument(DNNL_ARG_BIAS, bias_format(spec));
    if (passes.backward) build_backward_weights(in, forward);
    if (passes.backward && passes.input_gradient) build_backward_data(in, in_format, forward);
  }

  // One pass runs at a time: the primitive's scratch, followed by the weights or their gradient in its
  // format.
  std::size_t scratch_floats() const override {
    return std::max({behind(forward_) + weight_.scratch_floats(),
                     behind(backward_weights_) + dweight_.scratch_floats(),
                     behind(backward_data_) + weight_backward_.scratch_floats()});
  }
  void set_scratch(float* scratch) override {
    for (const auto& [primitive, weight] : {std::pair(&forward_, &weight_),
                                            {&backward_weights_, &dweight_},
                                            {&backward_data_, &weight_backward_}}) {
      primitive->set_scratch(scratch);
      weight->set_scratch(scratch + behind(*primitive));
    }
  }

  void forward(const float* parameters, const float* x, float* y) override {
    const float* in = x_.convert(x);
    const float* weight = weight_.convert(parameters + spec_.weight);
    if (biased()) {
      forward_.run({in, weight, y_.target(y), parameters + spec_.bias});
    } else {
      forward_.run({in, weight, y_.target(y)});
    }
    y_.finish(y);
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    if (relu_) mask_where_not_positive(output(), y, dy);
    float* dweight = gradient + spec_.weight;
    const float* in = x_again_.convert(x_.converted(x));
    const float* out = dy_weights_.convert(dy);
    if (biased()) {
      backward_weights_.run({in, out, dweight_.target(dweight), gradient + spec_.bias});
    } else {
      backward_weights_.run({in, out, dweight_.target(dweight)});
    }
    dweight_.finish(dweight);
    if (dx == nullptr) return;
    backward_data_.run(
        {dy_data_.convert(dy), weight_backward_.convert(parameters + spec_.weight), dx_.target(dx)});
    dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const Primitive* it : {&forward_, &backward_weights_, &backward_data_})
      bytes += it->workspace_bytes();
    for (const Reorder* it :
         {&x_, &y_, &weight_, &x_again_, &dy_weights_, &dweight_, &dy_data_, &weight_backward_, &dx_}) {
      bytes += it->workspace_bytes();
    }
    return bytes;
  }

 private:
  // Floats of the primitive's scratch, rounded up to a cache line.
  static std::size_t behind(const Primitive& primitive) {
    return (primitive.scratch_floats() + 15) / 16 * 16;
  }

  bool biased() const { return spec_.bias != kNone; }

  void build_backward_weights(const Shape& in, const ConvForward& forward) {
    const memory::dims dims = weight_dims(spec_, in);
    const auto desc = make_convolution_backward_weights(
        any_format(image_dims(in), type_), any_format(dims), bias_format(spec_),
        any_format(image_dims(output().shape), type_), geometry(spec_, in, type_), forward);
    backward_weights_ = Primitive(desc, Scratchpad::shared);
    backward_weights_.argument(DNNL_ARG_SRC, desc.src_desc())
        .argument(DNNL_ARG_DIFF_DST, desc.diff_dst_desc())
        .argument(DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc());
    if (biased()) backward_weights_.argument(DNNL_ARG_DIFF_BIAS, bias_format(spec_));
    x_again_ = Reorder(forward.src_desc(), desc.src_desc());
    dy_weights_ = Reorder(describe(output()), desc.diff_dst_desc());
    dweight_ = Reorder(desc.diff_weights_desc(), plain_format(dims), Scratchpad::shared);
  }

  void build_backward_data(const Shape& in, const memory::desc& in_format, const ConvForward& forward) {
    const memory::dims dims = weight_dims(spec_, in);
    const auto desc = make_convolution_backward_data(
        any_format(image_dims(in), type_), any_format(dims, type_),
        any_format(image_dims(output().shape), type_), geometry(spec_, in, type_), forward);
    backward_data_ = Primitive(desc, Scratchpad::shared);
    backward_data_.argument(DNNL_ARG_DIFF_DST, desc.diff_dst_desc())
        .argument(DNNL_ARG_WEIGHTS, desc.weights_desc())
        .argument(DNNL_ARG_DIFF_SRC, desc.diff_src_desc());
    dy_data_ = Reorder(describe(output()), desc.diff_dst_desc());
    weight_backward_ = Reorder(plain_format(dims), desc.weights_desc(), Scratchpad::shared);
    dx_ = Reorder(desc.diff_src_desc(), in_format);
  }

  ConvolutionSpec spec_;
  bool relu_;
  Type type_;
  Reorder x_, y_, weight_, x_again_, dy_weights_, dweight_, dy_data_, weight_backward_, dx_;
  Primitive forward_, backward_weights_, backward_data_;
};

}  // namespace

std::unique_ptr<Operation> make_convolution(const ConvolutionSpec& spec, const Activation& input,
                                            Passes passes, bool relu, Type type, bool stacked) {
  if (type == Type::bf16 && has_empty_windows(spec, input.shape)) type = Type::f32;
  // For training even without a backward pass: for inference the library would choose other formats, between
  // which ResNet-18 then converts with more memory than its activations take.
  const ConvForward forward = make_convolution_forward(
      true, any_format(image_dims(input.shape), type), any_format(weight_dims(spec, input.shape), type),
      bias_format(spec), any_format(image_dims(output_shape(spec, input.shape)), type),
      geometry(spec, input.shape, type), relu);
  const Shape shape = output_shape(spec, input.shape);
  const Activation out =
      stacked && type == Type::bf16 ? tiles::stack(shape) : activation(shape, forward.dst_desc());
  return std::make_unique<OneDnnConvolution>(spec, input.shape, describe(input), forward, out, passes, relu,
                                             type);
}

}  // namespace starling::kernels::cpu

#include "kernels/cpu/convolution.h"

#include <algorithm>

#include "kernels/cpu/format.h"
#include "kernels/cpu/vector_loops.h"

namespace starling::kernels::cpu {
namespace {

// Where it was faster: twice as fast from 64 channels at 32x32 to 256 at 8x8, and no faster with 512 at 4x4,
// where moving the transformed weights takes the time.
bool suits_winograd(const Convolution& spec, const Shape& in) {
  return spec.kernel == 3 && spec.stride == 1 && spec.groups == 1 && in.channels % 16 == 0 &&
         spec.channels % 16 == 0 && in.channels >= 32 && spec.channels >= 32 && spec.height >= 8 &&
         spec.width >= 8;
}

ConvolutionGeometry geometry(const Convolution& spec, const Shape& in) {
  // Below and right: what the asked-for outputs reach beyond the input, if they do.
  const auto end = [&](int outputs, int extent) {
    return memory::dim{std::max((outputs - 1) * spec.stride + spec.kernel - spec.padding - extent, 0)};
  };
  return {{spec.stride, spec.stride},
          {spec.padding, spec.padding},
          {end(spec.height, in.height), end(spec.width, in.width)},
          suits_winograd(spec, in)};
}

memory::dims weight_dims(const Convolution& spec, const Shape& in) {
  if (spec.groups == 1) return {spec.channels, in.channels, spec.kernel, spec.kernel};
  return {spec.groups, spec.channels / spec.groups, in.channels / spec.groups, spec.kernel, spec.kernel};
}

memory::desc bias_format(const Convolution& spec) {
  return spec.bias == kNone ? memory::desc() : plain_format({spec.channels});
}

// The library chooses the formats of x, y and the weights for the forward pass; x and y keep them in the
// backward passes. Plain weights are reordered once for each pass that wants them otherwise.
class OneDnnConvolution final : public Operation {
 public:
  OneDnnConvolution(const Convolution& spec, const Shape& in, const memory::desc& in_format,
                    const ConvForward& forward, Passes passes, bool relu)
      : Operation(activation(output_shape(spec, in), forward.dst_desc()), relu ? 2 : 1),
        spec_(spec),
        relu_(relu),
        x_(in_format, forward.src_desc()),
        weight_(plain_format(weight_dims(spec, in)), forward.weights_desc()),
        forward_(forward, Scratchpad::shared) {
    forward_.argument(DNNL_ARG_SRC, forward.src_desc())
        .argument(DNNL_ARG_WEIGHTS, forward.weights_desc())
        .argument(DNNL_ARG_DST, forward.dst_desc());
    if (biased()) forward_.argument(DNNL_ARG_BIAS, bias_format(spec));
    if (passes.backward) build_backward_weights(in, forward);
    if (passes.backward && passes.input_gradient) build_backward_data(in, in_format, forward);
  }

  std::size_t scratch_floats() const override {
    return std::max(
        {forward_.scratch_floats(), backward_weights_.scratch_floats(), backward_data_.scratch_floats()});
  }
  void set_scratch(float* scratch) override {
    for (Primitive* it : {&forward_, &backward_weights_, &backward_data_}) it->set_scratch(scratch);
  }

  void forward(const float* parameters, const float* x, float* y) override {
    const float* in = x_.convert(x);
    const float* weight = weight_.convert(parameters + spec_.weight);
    if (biased()) {
      forward_.run({in, weight, y, parameters + spec_.bias});
    } else {
      forward_.run({in, weight, y});
    }
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    if (relu_) mask_where_not_positive(y, dy, dy, output().floats);
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
         {&x_, &weight_, &x_again_, &dy_weights_, &dweight_, &dy_data_, &weight_backward_, &dx_}) {
      bytes += it->workspace_bytes();
    }
    return bytes;
  }

 private:
  bool biased() const { return spec_.bias != kNone; }

  void build_backward_weights(const Shape& in, const ConvForward& forward) {
    const memory::dims dims = weight_dims(spec_, in);
    const auto desc =
        convolution_backward_weights(any_format(image_dims(in)), any_format(dims), bias_format(spec_),
                                     any_format(image_dims(output().shape)), geometry(spec_, in), forward);
    backward_weights_ = Primitive(desc, Scratchpad::shared);
    backward_weights_.argument(DNNL_ARG_SRC, desc.src_desc())
        .argument(DNNL_ARG_DIFF_DST, desc.diff_dst_desc())
        .argument(DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc());
    if (biased()) backward_weights_.argument(DNNL_ARG_DIFF_BIAS, bias_format(spec_));
    x_again_ = Reorder(forward.src_desc(), desc.src_desc());
    dy_weights_ = Reorder(forward.dst_desc(), desc.diff_dst_desc());
    dweight_ = Reorder(desc.diff_weights_desc(), plain_format(dims));
  }

  void build_backward_data(const Shape& in, const memory::desc& in_format, const ConvForward& forward) {
    const memory::dims dims = weight_dims(spec_, in);
    const auto desc =
        convolution_backward_data(any_format(image_dims(in)), any_format(dims),
                                  any_format(image_dims(output().shape)), geometry(spec_, in), forward);
    backward_data_ = Primitive(desc, Scratchpad::shared);
    backward_data_.argument(DNNL_ARG_DIFF_DST, desc.diff_dst_desc())
        .argument(DNNL_ARG_WEIGHTS, desc.weights_desc())
        .argument(DNNL_ARG_DIFF_SRC, desc.diff_src_desc());
    dy_data_ = Reorder(forward.dst_desc(), desc.diff_dst_desc());
    weight_backward_ = Reorder(plain_format(dims), desc.weights_desc());
    dx_ = Reorder(desc.diff_src_desc(), in_format);
  }

  Convolution spec_;
  bool relu_;
  Reorder x_, weight_, x_again_, dy_weights_, dweight_, dy_data_, weight_backward_, dx_;
  Primitive forward_, backward_weights_, backward_data_;
};

}  // namespace

std::unique_ptr<Operation> make_convolution(const Convolution& spec, const Activation& input, Passes passes,
                                            bool relu) {
  const ConvForward forward = convolution_forward(
      passes.backward, any_format(image_dims(input.shape)), any_format(weight_dims(spec, input.shape)),
      bias_format(spec), any_format(image_dims(output_shape(spec, input.shape))), geometry(spec, input.shape),
      relu);
  return std::make_unique<OneDnnConvolution>(spec, input.shape, describe(input), forward, passes, relu);
}

}  // namespace starling::kernels::cpu

// Convolution, ReLU and average pool in one operation, one block of images at a time so that intermediate
// values stay in cache.
#include <algorithm>
#include <vector>

#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/lanes/format.h"
#include "kernels/cpu/lanes_operations.h"

namespace starling::kernels::cpu::lanes {
namespace {

class LanesConvolution final : public Operation {
 public:
  LanesConvolution(const ConvolutionSpec& spec, const Activation& input, const Shape& output, Passes passes,
                   int covers)
      : Operation(lanes_activation(output), covers),
        spec_(spec),
        shape_{input.shape.channels, spec.channels, spec.kernel, spec.height, spec.width},
        blocks_(block_count(output)),
        passes_(passes),
        relu_(covers > 1),
        pooled_(covers > 2),
        x_(input, lanes_activation(input.shape)),
        dx_(passes.input_gradient ? Conversion(lanes_activation(input.shape), input) : Conversion()),
        weight_(weight_count()) {
    if (pooled_) positive_.resize(static_cast<std::size_t>(blocks_ * positive_step()));
    if (!passes.backward) return;
    if (passes.input_gradient) weight_backward_ = Buffer(weight_count());
    const int kept = passes.input_gradient ? spec.channels : std::min(spec.channels, kTogether);
    spread_ = Buffer(static_cast<std::size_t>(kept * spread_step()));
  }

  void forward(const float* parameters, const float* x, float* y) override {
    arrange_forward(parameters + spec_.weight);
    const float* bias = parameters + spec_.bias;
    const float* in = x_.convert(x);
    for (int b = 0; b < blocks_; ++b) {
      if (pooled_) {
        kernels()->conv_forward_pooled(shape_, in + b * x_step(), weight_.data(), bias, y + b * y_step(),
                                       positive_.data() + b * positive_step());
      } else {
        kernels()->conv_forward(shape_, in + b * x_step(), weight_.data(), bias, relu_, y + b * y_step());
      }
    }
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    std::fill_n(gradient + spec_.weight, weight_count(), 0.0F);
    std::fill_n(gradient + spec_.bias, spec_.channels, 0.0F);
    const float* in = x_.converted(x);
    if (dx != nullptr) arrange_backward(parameters + spec_.weight);
    for (int b = 0; b < blocks_; ++b) {
      // A few output channels at a time, so that the spread gradient is still in the first cache when it is
      // used.
      for (int o = 0; o < shape_.out; o += kTogether) {
        const int count = std::min(kTogether, shape_.out - o);
        float* spread = spread_.data() + (passes_.input_gradient ? o * spread_step() : 0);
        this->spread(b, o, count, y, dy, spread, gradient + spec_.bias + o);
        kernels()->conv_backward_weight(shape_, count, in + b * x_step(), spread,
                                        gradient + spec_.weight + std::ptrdiff_t{o} * shape_.in * window());
      }
      if (dx == nullptr) continue;
      kernels()->conv_backward_data(shape_, spread_.data(), weight_backward_.data(),
                                    dx_.target(dx) + b * x_step());
    }
    if (dx != nullptr) dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override {
    return x_.workspace_bytes() + dx_.workspace_bytes() + weight_.bytes() + weight_backward_.bytes() +
           spread_.bytes() + positive_.size() * sizeof(positive_[0]);
  }

 private:
  static constexpr int kTogether = 12;  // a multiple of the loops' group sizes

  // Floats between blocks and, in the other arrays, between the units that the names say.
  std::ptrdiff_t lanes() const { return kernels()->lanes; }
  int window() const { return shape_.kernel * shape_.kernel; }
  std::ptrdiff_t x_step() const {
    return lanes() * shape_.in * (shape_.height + shape_.kernel - 1) * (shape_.width + shape_.kernel - 1);
  }
  std::ptrdiff_t y_step() const { return static_cast<std::ptrdiff_t>(output().floats) / blocks_; }
  std::ptrdiff_t plane() const { return std::ptrdiff_t{shape_.height} * shape_.width; }
  std::ptrdiff_t positive_step() const { return shape_.out * plane(); }
  std::ptrdiff_t spread_step() const { return lanes() * shape_.height * (shape_.width + 2 * kMargin); }
  std::size_t weight_count() const { return static_cast<std::size_t>(shape_.out * shape_.in * window()); }

  void spread(int block, int o, int count, const float* y, const float* dy, float* spread, float* dbias) {
    const std::ptrdiff_t at = block * y_step() + o * (y_step() / shape_.out);
    if (pooled_) {
      kernels()->spread_pooled(count, shape_.height, shape_.width,
                               positive_.data() + block * positive_step() + o * plane(), dy + at, spread,
                               dbias);
    } else {
      kernels()->spread(count, shape_.height, shape_.width, relu_ ? y + at : nullptr, dy + at, spread, dbias);
    }
  }

  void arrange_forward(const float* weight) {
    const int group = kernels()->group;
    float* to = weight_.data();
    for (int o = 0, size; o < shape_.out; o += size) {
      size = next_group(shape_.out - o, group);
      for (int k = 0; k < shape_.in * window(); ++k) {
        for (int r = 0; r < size; ++r) *to++ = weight[(o + r) * shape_.in * window() + k];
      }
    }
  }

  void arrange_backward(const float* weight) {
    const int group = kernels()->group;
    float* to = weight_backward_.data();
    for (int c = 0, size; c < shape_.in; c += size) {
      size = next_group(shape_.in - c, group);
      for (int o = 0; o < shape_.out; ++o) {
        for (int k = window(); k-- > 0;) {
          for (int r = 0; r < size; ++r) *to++ = weight[(o * shape_.in + c + r) * window() + k];
        }
      }
    }
  }

  ConvolutionSpec spec_;
  ConvShape shape_;
  int blocks_;
  Passes passes_;
  bool relu_, pooled_;
  Conversion x_, dx_;
  Buffer weight_, weight_backward_;
  std::vector<unsigned short>
      positive_;   // for each output before the pool, a bit per lane: whether the ReLU let it pass
  Buffer spread_;  // the gradient before the pool and ReLU, of one block
};

}  // namespace

std::unique_ptr<Operation> make_convolution(const ConvolutionSpec& spec, const Activation& input,
                                            Passes passes, int covers) {
  Shape output = output_shape(spec, input.shape);
  if (covers > 2) output = output_shape(AveragePoolSpec{2}, output);
  return std::make_unique<LanesConvolution>(spec, input, output, passes, covers);
}

}  // namespace starling::kernels::cpu::lanes

// The linear layer as three products. The forward pass and the input's gradient have images in the lanes. The
// weights' gradient, which sums over images, has neighboring inputs there and reads plain x and dy.
#include <algorithm>

#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/lanes/format.h"
#include "kernels/cpu/lanes_operations.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu::lanes {
namespace {

class LanesLinear final : public Operation {
 public:
  LanesLinear(const LinearSpec& spec, const Activation& input, Passes passes, bool relu)
      : Operation(lanes_activation(output_shape(spec, input.shape)), relu ? 2 : 1),
        spec_(spec),
        relu_(relu),
        batch_(input.shape.batch),
        inputs_(static_cast<int>(input.shape.sample_size())),
        blocks_(block_count(input.shape)),
        plain_x_(plain_activation(input.shape)),
        plain_y_(plain_activation(output().shape)),
        in_(input, lanes_activation(input.shape)),
        din_(passes.input_gradient ? Conversion(lanes_activation(input.shape), input) : Conversion()) {
    if (!passes.backward) return;
    // The last vector of the last row may extend beyond it.
    x_ = Buffer(plain_x_.floats + static_cast<std::size_t>(kernels()->lanes));
    dy_ = Buffer(plain_y_.floats);
  }

  void forward(const float* parameters, const float* x, float* y) override {
    Product product = over_lanes(spec_.features, inputs_, in_.convert(x), y);
    product.w = parameters + spec_.weight;
    product.w_c = 1;
    product.w_m = inputs_;
    product.start = spec_.bias == kNone ? nullptr : parameters + spec_.bias;
    product.relu = relu_;
    kernels()->product(product);
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    if (relu_) {
      kernels()->relu_backward(output().floats / static_cast<std::size_t>(kernels()->lanes), y, dy, dy);
    }
    unpack(plain_y_, dy, dy_.data());
    unpack(plain_x_, in_.converted(x), x_.data());
    if (spec_.bias != kNone) backward_bias(gradient + spec_.bias);
    backward_weight(gradient + spec_.weight);
    if (dx == nullptr) return;
    backward_data(parameters + spec_.weight, dy, din_.target(dx));
    din_.finish(dx);
  }

  std::size_t workspace_bytes() const override {
    return in_.workspace_bytes() + din_.workspace_bytes() + x_.bytes() + dy_.bytes();
  }

 private:
  void backward_bias(float* dbias) const {
    std::fill_n(dbias, spec_.features, 0.0F);
    const float* dy = dy_.data();
    for (int n = 0; n < batch_; ++n, dy += spec_.features) {
      for (int o = 0; o < spec_.features; ++o) dbias[o] += dy[o];
    }
  }

  void backward_weight(float* dweight) const {
    const int lanes = kernels()->lanes;
    Product product{};
    product.m = spec_.features;
    product.c = batch_;
    product.n = (inputs_ + lanes - 1) / lanes;
    product.w = dy_.data();
    product.w_c = spec_.features;
    product.w_m = 1;
    product.x = x_.data();
    product.x_c = inputs_;
    product.x_n = lanes;
    product.out = dweight;
    product.out_m = inputs_;
    product.out_n = lanes;
    product.last = inputs_ - (product.n - 1) * lanes;
    product.n_outermost = true;
    kernels()->product(product);
  }

  void backward_data(const float* weight, const float* dy, float* dx) const {
    Product product = over_lanes(inputs_, spec_.features, dy, dx);
    product.w = weight;
    product.w_c = inputs_;
    product.w_m = 1;
    kernels()->product(product);
  }

  // From c to m values of every image, in lanes.
  Product over_lanes(int m, int c, const float* x, float* out) const {
    const std::ptrdiff_t lanes = kernels()->lanes;
    Product product{};
    product.m = m;
    product.c = c;
    product.n = blocks_;
    product.x = x;
    product.x_c = lanes;
    product.x_n = lanes * c;
    product.out = out;
    product.out_m = lanes;
    product.out_n = lanes * m;
    product.last = kernels()->lanes;
    return product;
  }

  LinearSpec spec_;
  bool relu_;
  int batch_, inputs_, blocks_;
  Activation plain_x_, plain_y_;
  Conversion in_, din_;
  Buffer x_, dy_;  // plain
};

}  // namespace

std::unique_ptr<Operation> make_linear(const LinearSpec& spec, const Activation& input, Passes passes,
                                       bool relu) {
  return std::make_unique<LanesLinear>(spec, input, passes, relu);
}

}  // namespace starling::kernels::cpu::lanes

#include "kernels/cpu/lanes_operations.h"

#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/lanes/format.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu::lanes {
namespace {

class LanesRelu final : public Operation {
 public:
  LanesRelu(const Activation& input, Passes passes)
      : Operation(lanes_activation(input.shape), 1),
        x_(input, lanes_activation(input.shape)),
        dx_(passes.input_gradient ? Conversion(lanes_activation(input.shape), input) : Conversion()) {}

  void forward(const float*, const float* x, float* y) override {
    kernels()->relu(vectors(), x_.convert(x), y);
  }

  void backward(const float*, const float*, const float* y, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    kernels()->relu_backward(vectors(), y, dy, dx_.target(dx));
    dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes() + dx_.workspace_bytes(); }

 private:
  std::size_t vectors() const { return output().floats / static_cast<std::size_t>(kernels()->lanes); }

  Conversion x_, dx_;
};

class Exit final : public Operation {
 public:
  explicit Exit(const Shape& shape) : Operation(plain_activation(shape), 0) {}

  void forward(const float*, const float* x, float* y) override { unpack(output(), x, y); }
  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx != nullptr) pack(output(), dy, dx);
  }
};

bool has_loops(const ConvolutionSpec& it) {
  return it.stride == 1 && it.padding == 0 && it.kernel <= kKernelMax && it.groups == 1 && it.bias != kNone;
}

// The number of specs that a convolution can cover.
int covered(std::span<const OperationSpec> rest) {
  const auto& it = std::get<ConvolutionSpec>(rest[0]);
  if (rest.size() < 2 || !std::holds_alternative<ReluSpec>(rest[1])) return 1;
  const auto* pool = rest.size() < 3 ? nullptr : std::get_if<AveragePoolSpec>(&rest[2]);
  return pool != nullptr && pool->size == 2 && it.height % 2 == 0 && it.width % 2 == 0 ? 3 : 2;
}

}  // namespace

bool suits(const Activation& input) {
  if (kernels() == nullptr || (!is_lanes(input) && as_plain(input) == nullptr)) return false;
  return input.shape.batch * 4 >= block_count(input.shape) * kernels()->lanes * 3;
}

std::unique_ptr<Operation> make(std::span<const OperationSpec> rest, const Activation& input, Passes passes) {
  if (const auto* it = std::get_if<ConvolutionSpec>(&rest[0])) {
    return has_loops(*it) ? make_convolution(*it, input, passes, covered(rest)) : nullptr;
  }
  if (const auto* it = std::get_if<LinearSpec>(&rest[0])) {
    return make_linear(*it, input, passes, rest.size() > 1 && std::holds_alternative<ReluSpec>(rest[1]));
  }
  if (std::holds_alternative<ReluSpec>(rest[0])) return std::make_unique<LanesRelu>(input, passes);
  return nullptr;
}

std::unique_ptr<Operation> make_exit(const Activation& input) { return std::make_unique<Exit>(input.shape); }

}  // namespace starling::kernels::cpu::lanes

#include "kernels/cpu/lanes/operations.h"

#include "kernels/cpu/lanes/format.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu::lanes {
namespace {

class LanesRelu final : public Operation {
 public:
  LanesRelu(const Activation& input, Passes passes)
      : Operation(lanes_activation(input.shape), 1), entrance_(input, passes) {}

  void forward(const float*, const float* x, float* y) override {
    kernels()->relu(vectors(), entrance_.enter(x), y);
  }

  void backward(const float*, const float*, const float* y, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    kernels()->relu_backward(vectors(), y, dy, entrance_.gradient(dx));
    entrance_.leave(dx);
  }

  std::size_t workspace_bytes() const override { return entrance_.workspace_bytes(); }

 private:
  std::size_t vectors() const { return output().floats / static_cast<std::size_t>(kernels()->lanes); }

  Entrance entrance_;
};

class Exit final : public Operation {
 public:
  explicit Exit(const Shape& shape) : Operation(plain_activation(shape), 0) {}

  void forward(const float*, const float* x, float* y) override { unpack(output(), x, y); }
  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx != nullptr) pack(output(), dy, dx);
  }
};

bool has_loops(const Convolution& it) {
  return it.stride == 1 && it.padding == 0 && it.kernel <= kKernelMax && it.groups == 1 && it.bias != kNone;
}

// How many of the specs a convolution can do.
int covered(std::span<const OperationSpec> rest) {
  const auto& it = std::get<Convolution>(rest[0]);
  if (rest.size() < 2 || !std::holds_alternative<Relu>(rest[1])) return 1;
  const auto* pool = rest.size() < 3 ? nullptr : std::get_if<AveragePool>(&rest[2]);
  return pool != nullptr && pool->size == 2 && it.height % 2 == 0 && it.width % 2 == 0 ? 3 : 2;
}

}  // namespace

bool suits(const Activation& input) {
  if (kernels() == nullptr || (!is_lanes(input) && as_plain(input) == nullptr)) return false;
  return input.shape.batch * 4 >= block_count(input.shape) * kernels()->lanes * 3;
}

std::unique_ptr<Operation> make(std::span<const OperationSpec> rest, const Activation& input, Passes passes) {
  if (const auto* it = std::get_if<Convolution>(&rest[0])) {
    return has_loops(*it) ? make_convolution(*it, input, passes, covered(rest)) : nullptr;
  }
  if (const auto* it = std::get_if<Linear>(&rest[0])) {
    return make_linear(*it, input, passes, rest.size() > 1 && std::holds_alternative<Relu>(rest[1]));
  }
  return std::holds_alternative<Relu>(rest[0]) ? make_relu(input, passes) : nullptr;
}

std::unique_ptr<Operation> make_relu(const Activation& input, Passes passes) {
  return std::make_unique<LanesRelu>(input, passes);
}

std::unique_ptr<Operation> make_exit(const Activation& input) {
  return std::make_unique<Exit>(input.shape);
}

}  // namespace starling::kernels::cpu::lanes

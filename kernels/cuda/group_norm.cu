// Group normalization: groups of neighboring channels, each sample by itself (norm.h).
#include "kernels/cuda/norm.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

class DeviceGroupNorm final : public Operation {
 public:
  DeviceGroupNorm(Stream& stream, const GroupNorm& spec, const Activation& input, Passes passes, bool relu)
      : Operation(activation_like(input, input.shape), relu ? 2 : 1),
        spec_(spec),
        norm_(stream, output(), true, spec.groups, spec.epsilon, passes, relu) {}

  void forward(const float* parameters, const float* x, float* y) override {
    norm_.forward(parameters + spec_.scale, parameters + spec_.shift, x, y);
  }

  void backward(const float* parameters, const float* x, const float*, float* dy, float* dx,
                float* gradient) override {
    norm_.backward({gradient + spec_.scale, gradient + spec_.shift}, parameters + spec_.scale, x, dy, dx);
  }

  std::size_t workspace_bytes() const override { return norm_.workspace_bytes(); }

 private:
  GroupNorm spec_;
  Norm norm_;
};

}  // namespace

std::unique_ptr<Operation> make_group_norm(Stream& stream, const GroupNorm& spec, const Activation& input,
                                           Passes passes, bool relu) {
  return std::make_unique<DeviceGroupNorm>(stream, spec, input, passes, relu);
}

}  // namespace starling::kernels::cuda

// Batch normalization: each channel by itself, over all samples; backward() writes the changes of the running
// statistics to their places in the gradient. Group normalization: groups of neighboring channels, each
// sample by itself (norm.h).
#include "kernels/cuda/layers/norm.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

class DeviceBatchNorm final : public Operation {
 public:
  DeviceBatchNorm(Stream& stream, const BatchNormSpec& spec, const Activation& input, Passes passes,
                  bool relu)
      : Operation(activation_like(input, input.shape), relu ? 2 : 1),
        spec_(spec),
        training_(passes.backward),
        norm_(stream, output(), false, input.shape.channels, spec.epsilon, passes, relu) {}

  void forward(const float* parameters, const float* x, float* y) override {
    const float *scale = parameters + spec_.scale, *shift = parameters + spec_.shift;
    if (training_) return norm_.forward(scale, shift, x, y);
    norm_.forward_with(parameters + spec_.mean, parameters + spec_.variance, scale, shift, x, y);
  }

  void backward(const float* parameters, const float* x, const float*, float* dy, float* dx,
                float* gradient) override {
    const NormGradients to{gradient + spec_.scale,  gradient + spec_.shift,
                           gradient + spec_.mean,   gradient + spec_.variance,
                           parameters + spec_.mean, parameters + spec_.variance,
                           spec_.momentum};
    norm_.backward(to, parameters + spec_.scale, x, dy, dx);
  }

  std::size_t workspace_bytes() const override { return norm_.workspace_bytes(); }

 private:
  BatchNormSpec spec_;
  bool training_;
  Norm norm_;
};

class DeviceGroupNorm final : public Operation {
 public:
  DeviceGroupNorm(Stream& stream, const GroupNormSpec& spec, const Activation& input, Passes passes,
                  bool relu)
      : Operation(activation_like(input, input.shape), relu ? 2 : 1),
        spec_(spec),
        norm_(stream, output(), true, spec.groups, spec.epsilon, passes, relu) {}

  void forward(const float* parameters, const float* x, float* y) override {
    norm_.forward(parameters + spec_.scale, spec_.shift == kNone ? nullptr : parameters + spec_.shift, x, y);
  }

  void backward(const float* parameters, const float* x, const float*, float* dy, float* dx,
                float* gradient) override {
    float* dshift = spec_.shift == kNone ? nullptr : gradient + spec_.shift;
    norm_.backward({gradient + spec_.scale, dshift}, parameters + spec_.scale, x, dy, dx);
  }

  std::size_t workspace_bytes() const override { return norm_.workspace_bytes(); }

 private:
  GroupNormSpec spec_;
  Norm norm_;
};

}  // namespace

std::unique_ptr<Operation> make_batch_norm(Stream& stream, const BatchNormSpec& spec, const Activation& input,
                                           Passes passes, bool relu) {
  return std::make_unique<DeviceBatchNorm>(stream, spec, input, passes, relu);
}

std::unique_ptr<Operation> make_group_norm(Stream& stream, const GroupNormSpec& spec, const Activation& input,
                                           Passes passes, bool relu) {
  return std::make_unique<DeviceGroupNorm>(stream, spec, input, passes, relu);
}

}  // namespace starling::kernels::cuda

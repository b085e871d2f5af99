// Convolutions by cuDNN. In float32 it reads the weights where they lie in the arena and writes their gradient
// where it belongs; in bfloat16 both pass through copies in its own order. Where the padding that a spec asks
// for is not the same on all sides, which cuDNN does not know, the images are copied into larger ones first.
#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "kernels/buffer.h"
#include "kernels/cuda/descriptors.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/weights.h"

namespace starling::kernels::cuda {
namespace {

// An algorithm may take so much room to work in; all operations of a network share it.
constexpr std::size_t kMostWorkspace = std::size_t{512} << 20;
constexpr float kOne = 1, kZero = 0;

std::size_t floats_of(std::size_t bytes) {
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

// The extent that cuDNN gives an output.
int extent(int in, int kernel, int stride, int padding) {
  return in + 2 * padding < kernel ? 0 : (in + 2 * padding - kernel) / stride + 1;
}

// The first of what cuDNN suggests that can be done in the room there is.
template <class Suggestion>
Suggestion choose(std::span<const Suggestion> suggestions) {
  for (const Suggestion& it : suggestions) {
    if (it.status == CUDNN_STATUS_SUCCESS && it.memory <= kMostWorkspace) return it;
  }
  throw DeviceError("cuDNN knows no algorithm for a convolution of the network");
}

class CudnnConvolution final : public Operation {
 public:
  CudnnConvolution(Stream& stream, const Convolution& spec, const Activation& input, Passes passes, bool relu,
                   bool tf32)
      : Operation(activation_like(input, {input.shape.batch, spec.channels, spec.height, spec.width}),
                  relu ? 2 : 1),
        stream_(stream),
        spec_(spec),
        input_(input),
        relu_(relu),
        bf16_(is_bf16(input)),
        in_(input.shape.channels / spec.groups),
        memory_(stream.device()),
        padded_(padded_input(spec, input)),
        image_(padded_ ? *padded_ : input),
        x_(image_),
        y_(output()),
        filters_(bf16_, spec.channels, in_, spec.kernel),
        convolution_(padded_ ? 0 : spec.padding, spec.stride, spec.groups, bf16_ || tf32) {
    stream.dnn();
    choose_algorithms(passes);
    if (bf16_) weight_ = Buffer((weight_count() + 1) / 2, memory_);
    if (bf16_ && passes.backward) weight_gradient_ = Buffer((weight_count() + 1) / 2, memory_);
    if (padded_) padded_x_ = Buffer(padded_->floats, memory_);
    if (padded_ && passes.backward && passes.input_gradient) padded_dx_ = Buffer(padded_->floats, memory_);
    if (passes.backward && (relu || has_bias())) scratch_ = std::max(scratch_, partial_floats(output()));
  }

  void forward(const float* parameters, const float* x, float* y) override {
    const float* weight = parameters + spec_.weight;
    if (bf16_) {
      filters_to_bf16(stream_, weight, values<Bfloat16>(weight_.data()), spec_.channels, in_, places());
      weight = weight_.data();
    }
    if (padded_) {
      enclose(stream_, input_, x, *padded_, spec_.padding, spec_.padding, padded_x_.data());
      x = padded_x_.data();
    }
    check(cudnnConvolutionForward(stream_.dnn(), &kOne, x_.get(), x, filters_.get(), weight,
                                  convolution_.get(), forward_, scratch_memory_, scratch_bytes(), &kZero,
                                  y_.get(), y),
          "cudnnConvolutionForward");
    if (relu_ || has_bias())
      add_bias(stream_, output(), has_bias() ? parameters + spec_.bias : nullptr, relu_, y);
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    if (relu_ || has_bias())
      gather_bias(stream_, output(), relu_, y, dy, has_bias() ? gradient + spec_.bias : nullptr,
                  scratch_memory_);
    backward_filters(x, dy, gradient + spec_.weight);
    if (dx != nullptr) backward_data(parameters, dy, dx);
  }

  std::size_t workspace_bytes() const override {
    return weight_.bytes() + weight_gradient_.bytes() + padded_x_.bytes() + padded_dx_.bytes();
  }
  std::size_t scratch_floats() const override { return scratch_; }
  void set_scratch(float* scratch) override { scratch_memory_ = scratch; }

 private:
  // The images with all the padding that the spec asks for, where cuDNN's own would be another.
  static std::optional<Activation> padded_input(const Convolution& spec, const Activation& input) {
    const Shape& in = input.shape;
    if (extent(in.height, spec.kernel, spec.stride, spec.padding) == spec.height &&
        extent(in.width, spec.kernel, spec.stride, spec.padding) == spec.width)
      return std::nullopt;
    // The rows that the last window reads, and no fewer than there are, so that images only grow.
    const auto room = [&](int have, int outputs) {
      return std::max(have + spec.padding, (outputs - 1) * spec.stride + spec.kernel);
    };
    return activation_like(
        input, {in.batch, in.channels, room(in.height, spec.height), room(in.width, spec.width)});
  }

  void choose_algorithms(Passes passes) {
    constexpr int kMost = 8;
    int count = 0;
    const auto use = [this](std::size_t bytes) { scratch_ = std::max(scratch_, floats_of(bytes)); };
    std::array<cudnnConvolutionFwdAlgoPerf_t, kMost> forward;
    check(cudnnGetConvolutionForwardAlgorithm_v7(stream_.dnn(), x_.get(), filters_.get(), convolution_.get(),
                                                 y_.get(), kMost, &count, forward.data()),
          "cudnnGetConvolutionForwardAlgorithm_v7");
    const auto chosen = choose(std::span<const cudnnConvolutionFwdAlgoPerf_t>(forward.data(), index(count)));
    forward_ = chosen.algo;
    use(chosen.memory);
    if (!passes.backward) return;
    std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kMost> filter;
    check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(stream_.dnn(), x_.get(), y_.get(), convolution_.get(),
                                                        filters_.get(), kMost, &count, filter.data()),
          "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    const auto filters = choose(std::span<const cudnnConvolutionBwdFilterAlgoPerf_t>(filter.data(), index(count)));
    backward_filter_ = filters.algo;
    use(filters.memory);
    if (!passes.input_gradient) return;
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMost> data;
    check(cudnnGetConvolutionBackwardDataAlgorithm_v7(stream_.dnn(), filters_.get(), y_.get(),
                                                      convolution_.get(), x_.get(), kMost, &count, data.data()),
          "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    const auto images = choose(std::span<const cudnnConvolutionBwdDataAlgoPerf_t>(data.data(), index(count)));
    backward_data_ = images.algo;
    use(images.memory);
  }

  // The enclosed images of the last forward() are still there.
  void backward_filters(const float* x, const float* dy, float* gradient) {
    float* to = bf16_ ? weight_gradient_.data() : gradient;
    check(cudnnConvolutionBackwardFilter(stream_.dnn(), &kOne, x_.get(), padded_ ? padded_x_.data() : x,
                                         y_.get(), dy, convolution_.get(), backward_filter_, scratch_memory_,
                                         scratch_bytes(), &kZero, filters_.get(), to),
          "cudnnConvolutionBackwardFilter");
    if (bf16_)
      filters_from_bf16(stream_, values<Bfloat16>(to), gradient, spec_.channels, in_, places());
  }

  // In bfloat16 with the weights that the forward pass read.
  void backward_data(const float* parameters, const float* dy, float* dx) {
    check(cudnnConvolutionBackwardData(
              stream_.dnn(), &kOne, filters_.get(), bf16_ ? weight_.data() : parameters + spec_.weight,
              y_.get(), dy, convolution_.get(), backward_data_, scratch_memory_, scratch_bytes(), &kZero,
              x_.get(), padded_ ? padded_dx_.data() : dx),
          "cudnnConvolutionBackwardData");
    if (padded_) cut_out(stream_, *padded_, padded_dx_.data(), input_, spec_.padding, spec_.padding, dx);
  }

  static std::size_t index(int count) { return static_cast<std::size_t>(count); }
  bool has_bias() const { return spec_.bias != kNone; }
  int places() const { return spec_.kernel * spec_.kernel; }
  std::size_t weight_count() const {
    return static_cast<std::size_t>(spec_.channels) * static_cast<std::size_t>(in_) *
           static_cast<std::size_t>(places());
  }
  std::size_t scratch_bytes() const { return scratch_ * sizeof(float); }

  Stream& stream_;
  Convolution spec_;
  Activation input_;
  bool relu_, bf16_;
  int in_;  // channels of a group
  DeviceMemory memory_;
  std::optional<Activation> padded_;
  Activation image_;  // what cuDNN reads
  TensorDescriptor x_, y_;
  FilterDescriptor filters_;
  ConvolutionDescriptor convolution_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdFilterAlgo_t backward_filter_{};
  cudnnConvolutionBwdDataAlgo_t backward_data_{};
  Buffer weight_, weight_gradient_;    // in bfloat16
  Buffer padded_x_, padded_dx_;
  std::size_t scratch_ = 0;
  float* scratch_memory_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_convolution(Stream& stream, const Convolution& spec, const Activation& input,
                                            Passes passes, bool relu, bool tf32) {
  return std::make_unique<CudnnConvolution>(stream, spec, input, passes, relu, tf32);
}

}  // namespace starling::kernels::cuda

// Convolutions by cuDNN. In float32 it reads the weights from the arena and writes their gradient to its
// place; in bfloat16 both are copied in cuDNN's order. cuDNN only supports equal padding on all sides; for
// other paddings the images are first copied into larger ones.
#include <algorithm>
#include <array>
#include <optional>

#include <cudnn.h>

#include "kernels/buffer.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

// The limit of an algorithm's workspace, which all operations of a network share.
constexpr std::size_t kMostWorkspace = std::size_t{512} << 20;
constexpr float kOne = 1, kZero = 0;

std::size_t floats_of(std::size_t bytes) { return (bytes + sizeof(float) - 1) / sizeof(float); }

// The extent that cuDNN computes for an output.
int extent(int in, int kernel, int stride, int padding) {
  return in + 2 * padding < kernel ? 0 : (in + 2 * padding - kernel) / stride + 1;
}

// The first of cuDNN's suggestions that works within the limit.
template <class Suggestion>
Suggestion choose(std::span<const Suggestion> suggestions) {
  for (const Suggestion& it : suggestions) {
    if (it.status == CUDNN_STATUS_SUCCESS && it.memory <= kMostWorkspace) return it;
  }
  throw DeviceError("cuDNN has no algorithm for a convolution of the network");
}

// One of cuDNN's descriptors.
template <class T>
class Descriptor {
 public:
  Descriptor(cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T), const char* call) : destroy_(destroy) {
    check(create(&it_), call);
  }
  ~Descriptor() { destroy_(it_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T get() const { return it_; }

 private:
  T it_ = nullptr;
  cudnnStatus_t (*destroy_)(T);
};
void describe(const Descriptor<cudnnTensorDescriptor_t>& it, const Activation& activation) {
  const Shape& shape = activation.shape;
  const bool bf16 = is_bf16(activation);
  check(cudnnSetTensor4dDescriptor(it.get(), bf16 ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                   bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT, shape.batch, shape.channels,
                                   shape.height, shape.width),
        "cudnnSetTensor4dDescriptor");
}

class CudnnConvolution final : public Operation {
 public:
  CudnnConvolution(Stream& stream, const ConvolutionSpec& spec, const Activation& input, Passes passes,
                   bool relu, bool tf32)
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
        x_(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor, "cudnnCreateTensorDescriptor"),
        y_(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor, "cudnnCreateTensorDescriptor"),
        filters_(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor, "cudnnCreateFilterDescriptor"),
        convolution_(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor,
                     "cudnnCreateConvolutionDescriptor") {
    describe(x_, image_);
    describe(y_, output());
    describe_convolution(tf32);
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
    check(
        cudnnConvolutionForward(stream_.dnn(), &kOne, x_.get(), x, filters_.get(), weight, convolution_.get(),
                                forward_, scratch_memory_, scratch_bytes(), &kZero, y_.get(), y),
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
  // The images with all the padding that the spec needs, if cuDNN's own differs.
  static std::optional<Activation> padded_input(const ConvolutionSpec& spec, const Activation& input) {
    const Shape& in = input.shape;
    if (extent(in.height, spec.kernel, spec.stride, spec.padding) == spec.height &&
        extent(in.width, spec.kernel, spec.stride, spec.padding) == spec.width)
      return std::nullopt;
    // The rows that the last window reads, but at least the existing ones, so that images only grow.
    const auto room = [&](int have, int outputs) {
      return std::max(have + spec.padding, (outputs - 1) * spec.stride + spec.kernel);
    };
    return activation_like(input,
                           {in.batch, in.channels, room(in.height, spec.height), room(in.width, spec.width)});
  }

  // Filters [out, in, k, k] are [out, k, k, in] in bfloat16. Sums are in float32; factors are rounded for
  // tensor cores in bfloat16 and tf32.
  void describe_convolution(bool tf32) {
    const int padding = padded_ ? 0 : spec_.padding, stride = spec_.stride;
    check(cudnnSetFilter4dDescriptor(filters_.get(), bf16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT,
                                     bf16_ ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, spec_.channels, in_,
                                     spec_.kernel, spec_.kernel),
          "cudnnSetFilter4dDescriptor");
    check(cudnnSetConvolution2dDescriptor(convolution_.get(), padding, padding, stride, stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    check(cudnnSetConvolutionGroupCount(convolution_.get(), spec_.groups), "cudnnSetConvolutionGroupCount");
    check(cudnnSetConvolutionMathType(convolution_.get(),
                                      bf16_ || tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH),
          "cudnnSetConvolutionMathType");
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
    const auto filters =
        choose(std::span<const cudnnConvolutionBwdFilterAlgoPerf_t>(filter.data(), index(count)));
    backward_filter_ = filters.algo;
    use(filters.memory);
    if (!passes.input_gradient) return;
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, kMost> data;
    check(
        cudnnGetConvolutionBackwardDataAlgorithm_v7(stream_.dnn(), filters_.get(), y_.get(),
                                                    convolution_.get(), x_.get(), kMost, &count, data.data()),
        "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    const auto images = choose(std::span<const cudnnConvolutionBwdDataAlgoPerf_t>(data.data(), index(count)));
    backward_data_ = images.algo;
    use(images.memory);
  }

  // The padded images of the last forward() are still valid.
  void backward_filters(const float* x, const float* dy, float* gradient) {
    float* to = bf16_ ? weight_gradient_.data() : gradient;
    check(cudnnConvolutionBackwardFilter(stream_.dnn(), &kOne, x_.get(), padded_ ? padded_x_.data() : x,
                                         y_.get(), dy, convolution_.get(), backward_filter_, scratch_memory_,
                                         scratch_bytes(), &kZero, filters_.get(), to),
          "cudnnConvolutionBackwardFilter");
    if (bf16_) filters_from_bf16(stream_, values<Bfloat16>(to), gradient, spec_.channels, in_, places());
  }

  // In bfloat16 it uses the weights of the forward pass.
  void backward_data(const float* parameters, const float* dy, float* dx) {
    check(cudnnConvolutionBackwardData(stream_.dnn(), &kOne, filters_.get(),
                                       bf16_ ? weight_.data() : parameters + spec_.weight, y_.get(), dy,
                                       convolution_.get(), backward_data_, scratch_memory_, scratch_bytes(),
                                       &kZero, x_.get(), padded_ ? padded_dx_.data() : dx),
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
  ConvolutionSpec spec_;
  Activation input_;
  bool relu_, bf16_;
  int in_;  // channels of a group
  DeviceMemory memory_;
  std::optional<Activation> padded_;
  Activation image_;  // what cuDNN reads
  Descriptor<cudnnTensorDescriptor_t> x_, y_;
  Descriptor<cudnnFilterDescriptor_t> filters_;
  Descriptor<cudnnConvolutionDescriptor_t> convolution_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdFilterAlgo_t backward_filter_{};
  cudnnConvolutionBwdDataAlgo_t backward_data_{};
  Buffer weight_, weight_gradient_;  // in bfloat16
  Buffer padded_x_, padded_dx_;
  std::size_t scratch_ = 0;
  float* scratch_memory_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_convolution(Stream& stream, const ConvolutionSpec& spec,
                                            const Activation& input, Passes passes, bool relu, bool tf32) {
  return std::make_unique<CudnnConvolution>(stream, spec, input, passes, relu, tf32);
}

}  // namespace starling::kernels::cuda

// The Backend interface for a GPU.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/parameters.h"
#include "kernels/cuda/passes.h"

namespace starling::kernels::cuda {
namespace {

// Samples may take so much of the memory that is free when they come: what trains comes before them, and what
// is left is other peers'.
constexpr double kShareOfSamples = 0.5;

std::size_t bytes_of(const SampleView& samples) {
  return samples.shape.size() * (samples.floats != nullptr ? sizeof(float) : 1) +
         static_cast<std::size_t>(samples.shape.batch);
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, Precision precision)
      : device_(device),
        name_("cuda:" + std::to_string(device)),
        bf16_(precision == Precision::bf16),
        tf32_(precision == Precision::tf32),
        memory_(device),
        staging_(device) {
    use_device(device);
  }

  std::string_view name() const override { return name_; }
  Memory& memory() const override { return memory_; }
  Memory& staging() const override { return staging_; }
  std::unique_ptr<Queue> make_queue() const override { return std::make_unique<Stream>(device_); }
  std::unique_ptr<Parameters> make_parameters(std::size_t floats) const override {
    return std::make_unique<DeviceParameters>(device_, floats);
  }

  std::unique_ptr<Samples> keep(const SampleView& samples) const override {
    const auto free = static_cast<double>(memory_.room()->free);
    if (static_cast<double>(bytes_of(samples)) > kShareOfSamples * free) return nullptr;
    return make_samples(device_, samples);
  }

  Activation input(const Shape& stored, int height, int width) const override {
    return plain_window(stored, height, width);
  }

  std::unique_ptr<Operation> make(Queue& queue, std::span<const OperationSpec> rest, const Activation& input,
                                  Passes passes) const override {
    STARLING_CHECK(!rest.empty());
    Stream& stream = stream_of(queue);
    use_device(device_);
    if (auto operation = make_for_vectors(stream, rest[0], input, passes)) return operation;
    if (as_plain(input) != nullptr && (bf16_ || !is_dense_plain(input)))
      return make_entrance(stream, input, bf16_);
    const bool relu = rest.size() > 1 && std::holds_alternative<ReluSpec>(rest[1]);
    if (const auto* it = std::get_if<ConvolutionSpec>(&rest[0]))
      return make_convolution(stream, *it, input, passes, relu, tf32_);
    if (const auto* it = std::get_if<LinearSpec>(&rest[0])) {
      if (is_bf16(input) && input.shape.height * input.shape.width > 1) return make_flatten(stream, input);
      return make_linear(stream, *it, input, passes, relu, ends(rest), tf32_);
    }
    if (const auto* it = std::get_if<AveragePoolSpec>(&rest[0])) return make_average_pool(stream, *it, input);
    if (const auto* it = std::get_if<MaxPoolSpec>(&rest[0])) return make_max_pool(stream, *it, input);
    if (const auto* it = std::get_if<BatchNormSpec>(&rest[0]))
      return make_batch_norm(stream, *it, input, passes, relu);
    if (const auto* it = std::get_if<GroupNormSpec>(&rest[0]))
      return make_group_norm(stream, *it, input, passes, relu);
    if (const auto* it = std::get_if<DropoutSpec>(&rest[0])) return make_dropout(stream, *it, input, passes);
    if (std::holds_alternative<GlobalAveragePoolSpec>(rest[0]))
      return make_global_average_pool(stream, input);
    if (const auto* it = std::get_if<GeluSpec>(&rest[0])) return make_gelu(stream, *it, input);
    if (const auto* it = std::get_if<AttentionSpec>(&rest[0]))
      return make_attention(stream, *it, input, passes);
    if (std::holds_alternative<SwigluSpec>(rest[0])) return make_swiglu(stream, input);
    STARLING_CHECK(std::holds_alternative<ReluSpec>(rest[0]));
    return make_relu(stream, input);
  }

  std::unique_ptr<Sum> make_sum(Queue& queue, const Activation& a, const Activation& b,
                                bool relu) const override {
    use_device(device_);
    return cuda::make_sum(stream_of(queue), a, b, relu);
  }

  std::unique_ptr<Loss> softmax_cross_entropy(Queue& queue, const Activation& logits) const override {
    use_device(device_);
    return make_softmax_cross_entropy(stream_of(queue), logits);
  }

  void accumulate(Queue& queue, const Activation& activation, float* gradient,
                  const float* more) const override {
    cuda::accumulate(stream_of(queue), activation, gradient, more);
  }
  void mix(Queue& queue, std::span<float> out, std::span<const float> x, std::span<const float> theirs,
           std::span<const float> own, float w) const override {
    STARLING_CHECK(x.size() == out.size() && theirs.size() == out.size() && own.size() == out.size());
    use_device(device_);
    cuda::mix(stream_of(queue), out.data(), x.data(), theirs.data(), own.data(), w, out.size());
  }
  std::unique_ptr<Averager> make_averager(const std::vector<const Backend*>& backends) const override {
    std::vector<int> devices;
    for (const Backend* backend : backends) {
      const auto* const own = dynamic_cast<const CudaBackend*>(backend);
      if (own == nullptr) return nullptr;
      devices.push_back(own->device_);
    }
    return make_nccl_averager(devices);
  }
  void pack(Queue& queue, const Activation& activation, const float* plain, float* stored) const override {
    cuda::pack(stream_of(queue), activation, plain, stored);
  }
  void unpack(Queue& queue, const Activation& activation, const float* stored, float* plain) const override {
    cuda::unpack(stream_of(queue), activation, stored, plain);
  }

 private:
  // Operations that read vectors in float32 in any precision; null for others.
  std::unique_ptr<Operation> make_for_vectors(Stream& stream, const OperationSpec& spec,
                                              const Activation& input, Passes passes) const {
    if (input.shape.height * input.shape.width > 1 || (as_plain(input) != nullptr && !is_dense_plain(input)))
      return nullptr;
    if (const auto* it = std::get_if<EmbeddingSpec>(&spec)) return make_embedding(stream, *it, input, passes);
    if (const auto* it = std::get_if<PositionSpec>(&spec)) return make_position(stream, *it, input, passes);
    if (const auto* it = std::get_if<RmsNormSpec>(&spec))
      return make_rms_norm(stream, *it, input, passes, bf16_);
    if (const auto* it = std::get_if<GroupNormSpec>(&spec); it != nullptr && it->groups == 1)
      return make_layer_norm(stream, *it, input, passes, bf16_);
    if (const auto* it = std::get_if<DropoutSpec>(&spec)) return make_dropout(stream, *it, input, passes);
    return nullptr;
  }

  // Whether rest[0] ends a network or a branch, but for dropout. Its output is float32: logits keep all their
  // digits, and so does the sum of many branches.
  static bool ends(std::span<const OperationSpec> rest) {
    return std::ranges::all_of(
        rest.subspan(1), [](const OperationSpec& spec) { return std::holds_alternative<DropoutSpec>(spec); });
  }

  int device_;
  std::string name_;
  bool bf16_, tf32_;
  mutable DeviceMemory memory_;
  mutable PinnedMemory staging_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(int device, Precision precision) {
  return std::make_unique<CudaBackend>(device, precision);
}

}  // namespace starling::kernels::cuda

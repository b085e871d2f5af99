// The attention operation (attention.h).
#include "kernels/cuda/layers/attention.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/buffer.h"
#include "kernels/cuda/layers/tiles.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

// means[sequence, head, position] = y . dy of each head, the mean of dp by the weights: a warp for each.
template <class T>
__global__ void mean_gradients(Heads it, unsigned rows, const T* y, const T* dy, float* means) {
  const bool real = warp_number() < rows;
  const unsigned number = real ? warp_number() : rows - 1, head = number % it.heads, n = number / it.heads;
  const std::size_t begin = static_cast<std::size_t>(n) * it.y_row + head * it.size;
  float sum = 0;
  for (unsigned f = threadIdx.x % kWarp; f < it.size; f += kWarp)
    sum += to_float(y[begin + f]) * to_float(dy[begin + f]);
  sum = warp_sum(sum);
  if (real && threadIdx.x % kWarp == 0)
    means[(n / it.context * it.heads + head) * it.context + n % it.context] = sum;
}

Heads heads_of(const AttentionSpec& spec, const Shape& input) {
  Heads it{};
  it.context = static_cast<unsigned>(spec.context);
  it.heads = static_cast<unsigned>(spec.heads);
  it.groups = static_cast<unsigned>(spec.groups);
  it.size = static_cast<unsigned>(spec.head_size(input));
  it.x_row = static_cast<unsigned>(input.channels);
  it.y_row = it.heads * it.size;
  it.scale = 1 / std::sqrt(static_cast<float>(it.size));
  it.dropped = reference::DropoutDraw::dropped_of({spec.dropout, spec.seed});
  it.factor = 1 / (1 - spec.dropout);
  it.first_head = static_cast<unsigned>(spec.first_head);
  it.other_heads = spec.all_heads > 0 ? static_cast<unsigned>(spec.all_heads - spec.heads) : 0;
  return it;
}

class DeviceAttention final : public Operation {
 public:
  DeviceAttention(Stream& stream, const AttentionSpec& spec, const Activation& input, Passes passes)
      : Operation(activation_like(input, output_shape(spec, input.shape)), 1),
        stream_(stream),
        passes_(is_bf16(input) ? kBfloat16Attention : kFloatAttention),
        heads_(heads_of(spec, input.shape)),
        sequences_(static_cast<unsigned>(input.shape.batch / spec.context)),
        rows_(counted(static_cast<std::size_t>(input.shape.batch) * static_cast<std::size_t>(spec.heads))),
        memory_(stream.device()),
        draws_(stream, spec.seed, passes.backward && spec.dropout > 0) {
    counted(input);
    if (heads_.size > kMostHead) {
      throw DeviceError("an attention layer has heads of " + std::to_string(heads_.size) +
                        " values; a GPU computes at most " + std::to_string(kMostHead) +
                        ": use more heads, or train on the processor with --device cpu");
    }
    heads_.drawn = draws_.last();
    if (spec.rotary_base > 0) make_angles(static_cast<double>(spec.rotary_base));
    if (passes.backward) denominators_ = Buffer(rows_, memory_);
  }

  void forward(const float* parameters, const float* x, float* y) override {
    draws_.next();
    forward_again(parameters, x, y);
  }
  void forward_again(const float*, const float* x, float* y) override {
    passes_.forward(stream_, heads_, sequences_, x, y, denominators_.data());
  }

  void backward(const float*, const float* x, const float* y, float* dy, float* dx, float*) override {
    if (dx == nullptr) return;
    with_type(output(), [&]<class T>(T) {
      launch_together(stream_, blocks_of_warps(rows_), kThreads, mean_gradients<T>, heads_, rows_,
                      values<T>(y), values<T>(dy), means_);
    });
    passes_.backward(stream_, heads_, sequences_, x, dy, {denominators_.data(), means_}, dx);
  }

  void set_draws(std::uint64_t draws) override { draws_.set(draws); }

  std::size_t workspace_bytes() const override {
    return denominators_.bytes() + angles_.bytes() + draws_.bytes();
  }
  std::size_t scratch_floats() const override { return denominators_.size(); }
  void set_scratch(float* scratch) override { means_ = scratch; }

 private:
  void make_angles(double base) {
    const std::size_t half = heads_.size / 2, n = heads_.context * half;
    std::vector<float> angles(2 * n);
    for (std::size_t i = 0; i < n; ++i) {
      const double angle =
          static_cast<double>(i / half) * std::pow(base, -2.0 * static_cast<double>(i % half) / heads_.size);
      angles[i] = static_cast<float>(std::cos(angle));
      angles[n + i] = static_cast<float>(std::sin(angle));
    }
    angles_ = Buffer(angles.size(), memory_);
    stream_.upload(angles.data(), angles_.data(), angles_.bytes());
    stream_.wait();
    heads_.cosines = angles_.data();
    heads_.sines = angles_.data() + n;
  }

  Stream& stream_;
  const AttentionPasses& passes_;
  Heads heads_;
  unsigned sequences_, rows_;  // rows of all heads
  DeviceMemory memory_;
  Draws draws_;
  Buffer denominators_, angles_;
  float* means_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_attention(Stream& stream, const AttentionSpec& spec, const Activation& input,
                                          Passes passes) {
  return std::make_unique<DeviceAttention>(stream, spec, input, passes);
}

}  // namespace starling::kernels::cuda

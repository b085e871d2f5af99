// Embeddings and learned positions. Both kinds of sums are always in the same order: a token's gradient is
// the sum of the rows of dy where it occurs, first within pieces of the batch if there are few tokens.
#include <algorithm>

#include "kernels/cuda/layers/tiles.h"
#include "kernels/cuda/operations.h"

namespace starling::kernels::cuda {
namespace {

constexpr unsigned kScan = 128;  // threads of a block, which test as many rows at a time

__global__ void rows_of_tokens(unsigned n, unsigned features, const float* numbers, const float* weight,
                               float* y) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
    const auto token = static_cast<std::size_t>(numbers[i / features]);
    y[i] = weight[token * features + i % features];
  }
}

// The parts in which the rows are added up.
struct Scan {
  unsigned rows, features, tokens, chunk;  // rows of a part
};

// Block [part, token]: to[part, token] = the sum of dy over the part's rows with this token, or that is added
// to it if `adds`.
__global__ void __launch_bounds__(kScan)
    sum_of_tokens(Scan scan, const float* numbers, const float* dy, bool adds, float* to) {
  STARLING_SHARED unsigned matches[kScan], found[kScan], counts[kScan / kWarp];
  const unsigned token = blockIdx.x % scan.tokens, part = blockIdx.x / scan.tokens, thread = threadIdx.x;
  const unsigned begin = part * scan.chunk;
  const unsigned end = begin + scan.chunk < scan.rows ? begin + scan.chunk : scan.rows;
  to += static_cast<std::size_t>(blockIdx.x) * scan.features;
  for (unsigned c = thread; c < scan.features && !adds; c += kScan) to[c] = 0;
  for (unsigned first = begin; first < end; first += kScan) {
    const unsigned row = first + thread;
    const unsigned match = row < end && static_cast<unsigned>(numbers[row]) == token ? 1 : 0;
    unsigned of_warp = match;
    for (int bits = static_cast<int>(kWarp) / 2; bits > 0; bits /= 2) of_warp += shuffle_xor(of_warp, bits);
    matches[thread] = match;
    if (thread % kWarp == 0) counts[thread / kWarp] = of_warp;
    __syncthreads();
    unsigned count = 0, before = 0;
    for (const unsigned some : counts) count += some;
    if (match != 0) {
      for (unsigned i = 0; i < thread; ++i) before += matches[i];
      found[before] = row;
    }
    __syncthreads();
    for (unsigned c = thread; c < scan.features && count > 0; c += kScan) {
      float sum = 0;
      for (unsigned i = 0; i < count; ++i) sum += dy[static_cast<std::size_t>(found[i]) * scan.features + c];
      to[c] += sum;
    }
    __syncthreads();
  }
}

// to[i] = the sum of partial[part, i], or that is added to it if `adds`.
__global__ void add_parts(std::size_t n, unsigned parts, const float* partial, bool adds, float* to) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    float sum = adds ? to[i] : 0.0F;
    for (unsigned part = 0; part < parts; ++part) sum += partial[part * n + i];
    to[i] = sum;
  }
}

class DeviceEmbedding final : public Operation {
 public:
  DeviceEmbedding(Stream& stream, const EmbeddingSpec& spec, const Activation& input, Passes passes)
      : Operation(plain_activation(output_shape(spec, input.shape)), 1),
        stream_(stream),
        spec_(spec),
        n_(counted(output())) {
    scan_ = {static_cast<unsigned>(input.shape.batch), static_cast<unsigned>(spec.features),
             static_cast<unsigned>(spec.tokens), 0};
    // Enough blocks for a device, unless the parts become small.
    const unsigned most = std::max(scan_.rows / kScan, 1U);
    parts_ = std::clamp(2 * kBlocks / scan_.tokens, 1U, most);
    scan_.chunk = ((scan_.rows + parts_ - 1) / parts_ + kScan - 1) / kScan * kScan;
    parts_ = (scan_.rows + scan_.chunk - 1) / scan_.chunk;
    if (passes.backward && parts_ > 1) scratch_ = parts_ * weights();
  }

  void forward(const float* parameters, const float* x, float* y) override {
    launch(stream_, blocks_for(n_, kThreads), kThreads, rows_of_tokens, n_, scan_.features, x,
           parameters + spec_.weight, y);
  }

  void backward(const float*, const float* x, const float*, float* dy, float*, float* gradient) override {
    float* to = gradient + spec_.weight;
    const bool in_parts = parts_ > 1;
    launch_together(stream_, parts_ * scan_.tokens, kScan, sum_of_tokens, scan_, x, dy,
                    spec_.shared && !in_parts, in_parts ? scratch_memory_ : to);
    if (!in_parts) return;
    launch(stream_, blocks_for(weights(), kThreads), kThreads, add_parts, weights(), parts_, scratch_memory_,
           spec_.shared, to);
  }

  std::size_t scratch_floats() const override { return scratch_; }
  void set_scratch(float* scratch) override { scratch_memory_ = scratch; }

 private:
  std::size_t weights() const { return std::size_t{scan_.tokens} * scan_.features; }

  Stream& stream_;
  EmbeddingSpec spec_;
  unsigned n_, parts_;
  Scan scan_{};
  std::size_t scratch_ = 0;
  float* scratch_memory_ = nullptr;
};

// n values of y; the weights of a sequence are `period`.
template <class T>
__global__ void add_positions(unsigned n, unsigned period, const T* x, const float* weight, T* y) {
  const unsigned threads = gridDim.x * blockDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
    y[i] = from_float<T>(to_float(x[i]) + weight[i % period]);
}

class DevicePosition final : public Operation {
 public:
  DevicePosition(Stream& stream, const PositionSpec& spec, const Activation& input, Passes passes)
      : Operation(activation_like(input, input.shape), 1),
        stream_(stream),
        spec_(spec),
        n_(counted(output())),
        period_(spec.context * input.shape.channels),
        sequences_(activation_like(input, {input.shape.batch / spec.context, period_, 1, 1})) {
    if (passes.backward) scratch_ = partial_floats(sequences_);
  }

  void forward(const float* parameters, const float* x, float* y) override {
    with_type(output(), [&]<class T>(T) {
      launch(stream_, blocks_for(n_, kThreads), kThreads, add_positions<T>, n_, period_, values<T>(x),
             parameters + spec_.weight, values<T>(y));
    });
  }

  // The weights have the same gradient as a bias of whole sequences.
  void backward(const float*, const float*, const float*, float* dy, float* dx, float* gradient) override {
    gather_bias(stream_, sequences_, false, nullptr, dy, gradient + spec_.weight, scratch_memory_);
    if (dx == nullptr) return;
    const std::size_t bytes = n_ * (is_bf16(output()) ? sizeof(Bfloat16) : sizeof(float));
    check(cudaMemcpyAsync(dx, dy, bytes, cudaMemcpyDeviceToDevice, stream_.get()), "cudaMemcpyAsync");
  }

  std::size_t scratch_floats() const override { return scratch_; }
  void set_scratch(float* scratch) override { scratch_memory_ = scratch; }

 private:
  Stream& stream_;
  PositionSpec spec_;
  unsigned n_;
  int period_;
  Activation sequences_;
  std::size_t scratch_ = 0;
  float* scratch_memory_ = nullptr;
};

}  // namespace

std::unique_ptr<Operation> make_embedding(Stream& stream, const EmbeddingSpec& spec, const Activation& input,
                                          Passes passes) {
  return std::make_unique<DeviceEmbedding>(stream, spec, input, passes);
}

std::unique_ptr<Operation> make_position(Stream& stream, const PositionSpec& spec, const Activation& input,
                                         Passes passes) {
  return std::make_unique<DevicePosition>(stream, spec, input, passes);
}

}  // namespace starling::kernels::cuda

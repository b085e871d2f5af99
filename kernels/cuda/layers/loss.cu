// Softmax cross-entropy: a warp for each sample, then one block that adds the samples' losses, always in the
// same order, and writes the sum to host memory.
#include "kernels/buffer.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/wide.h"

namespace starling::kernels::cuda {
namespace {

struct SampleLoss {
  float loss;
  std::int32_t correct;
};

struct Largest {
  float logit;
  int place;  // a tie goes to the lower class
};
__device__ Largest largest_of(const float* row, int classes) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  Largest best{-INFINITY, classes};
  for (int c = lane; c < classes; c += static_cast<int>(kWarp)) {
    if (row[c] > best.logit || best.place == classes) best = {row[c], c};
  }
  for (int bits = static_cast<int>(kWarp) / 2; bits > 0; bits /= 2) {
    const Largest other{shuffle_xor(best.logit, bits), shuffle_xor(best.place, bits)};
    if (other.logit > best.logit || (other.logit == best.logit && other.place < best.place)) best = other;
  }
  return best;
}

// dlogits may be null; otherwise it is of the mean over `count`.
__global__ void loss_of_samples(int count, int classes, const float* logits, const std::int32_t* labels,
                                float* dlogits, SampleLoss* losses) {
  const int warp = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const bool real = warp < count;  // surplus warps repeat the last sample without effect
  const int n = real ? warp : count - 1;
  const float* row = logits + static_cast<std::size_t>(n) * classes;
  const int label = labels[n];
  const Largest best = largest_of(row, classes);
  float others = 0;  // without the largest, whose exponential is 1: small sums keep their precision
  for (int c = lane; c < classes; c += static_cast<int>(kWarp)) {
    if (c != best.place) others += expf(row[c] - best.logit);
  }
  others = warp_sum(others);
  if (!real) return;
  if (lane == 0) losses[n] = {log1pf(others) + (best.logit - row[label]), best.place == label ? 1 : 0};
  if (dlogits == nullptr) return;
  float* drow = dlogits + static_cast<std::size_t>(n) * classes;
  for (int c = lane; c < classes; c += static_cast<int>(kWarp)) {
    const float softmax = expf(row[c] - best.logit) / (1 + others);
    drow[c] = (softmax - (c == label ? 1.0F : 0.0F)) / static_cast<float>(count);
  }
}

__global__ void sum_of_losses(int count, const SampleLoss* losses, LossValue* value) {
  STARLING_SHARED double sums[kThreads];
  STARLING_SHARED std::int64_t correct[kThreads];
  const unsigned thread = threadIdx.x;
  double own = 0;
  std::int64_t own_correct = 0;
  for (unsigned i = thread; i < static_cast<unsigned>(count); i += kThreads) {
    own += static_cast<double>(losses[i].loss);
    own_correct += losses[i].correct;
  }
  sums[thread] = own;
  correct[thread] = own_correct;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread >= half) continue;
    sums[thread] += sums[thread + half];
    correct[thread] += correct[thread + half];
  }
  if (thread != 0) return;
  value->sum = sums[0];
  value->correct = correct[0];
}

class DeviceLoss final : public Loss {
 public:
  DeviceLoss(Stream& stream, const Activation& logits)
      : stream_(stream),
        batch_(logits.shape.batch),
        classes_(static_cast<int>(logits.shape.sample_size())),
        memory_(stream.device()),
        losses_(static_cast<std::size_t>(batch_) * sizeof(SampleLoss) / sizeof(float), memory_) {}

  void evaluate(const float* logits, const std::int32_t* labels, int count, LossValue* value) override {
    run(logits, labels, count, nullptr, value);
  }
  void train(const float* logits, const std::int32_t* labels, float* dlogits, LossValue* value) override {
    run(logits, labels, batch_, dlogits, value);
  }

 private:
  void run(const float* logits, const std::int32_t* labels, int count, float* dlogits, LossValue* value) {
    auto* losses = values<SampleLoss>(losses_.data());
    if (count > 0) {
      constexpr unsigned kSamples = 4;  // per block: few, so that small batches have many blocks
      launch_together(stream_, (static_cast<unsigned>(count) + kSamples - 1) / kSamples, kSamples * kWarp,
                      loss_of_samples, count, classes_, logits, labels, dlogits, losses);
    }
    launch_together(stream_, 1, kThreads, sum_of_losses, count, losses, value);
  }

  Stream& stream_;
  int batch_, classes_;
  DeviceMemory memory_;
  Buffer losses_;
};

}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(Stream& stream, const Activation& logits) {
  return std::make_unique<DeviceLoss>(stream, logits);
}

}  // namespace starling::kernels::cuda

// One or several blocks for each sample of a batch. The kernel reads the choices from pinned memory when the
// queue reaches it, exactly as a copy would. So the host may write new ones when the batch is done, a
// replayed recording uses the current ones, and two queues or two runs of a recording share no buffer. A
// block reads its 12 bytes once.
#include "base/check.h"
#include "kernels/buffer.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/wide.h"

namespace starling::kernels::cuda {
namespace {

struct Images {
  unsigned channels, height, width;
};

template <class T>
__global__ void gather_samples(Images images, unsigned parts, const Choice* choices, const T* from,
                               const std::uint8_t* from_labels, const float* scale, const float* shift,
                               float* to, std::int32_t* labels) {
  STARLING_SHARED Choice shared[1];
  const unsigned n = blockIdx.x / parts, part = blockIdx.x % parts;
  if (threadIdx.x == 0) shared[0] = choices[n];
  __syncthreads();
  const Choice choice = shared[0];
  if (part == 0 && threadIdx.x == 0) labels[n] = from_labels[choice.sample];
  const auto [channels, height, width] = images;
  const unsigned plane = height * width, size = channels * plane;
  const T* sample = from + static_cast<std::size_t>(choice.sample) * size;
  for (unsigned at = part * blockDim.x + threadIdx.x; at < size; at += parts * blockDim.x) {
    const unsigned c = at / plane, row = at % plane / width, column = at % width;
    const int i = static_cast<int>(row) + choice.down;
    const int j = static_cast<int>(choice.mirrored != 0 ? width - 1 - column : column) + choice.right;
    const bool inside = i >= 0 && j >= 0 && i < static_cast<int>(height) && j < static_cast<int>(width);
    const float value =
        inside ? static_cast<float>(
                     sample[(c * height + static_cast<unsigned>(i)) * width + static_cast<unsigned>(j)])
               : 0.0F;
    to[static_cast<std::size_t>(n) * size + at] = scale[c] * value + shift[c];
  }
}

class DeviceSamples final : public Samples {
 public:
  DeviceSamples(int device, const SampleView& view)
      : images_{static_cast<unsigned>(view.shape.channels), static_cast<unsigned>(view.shape.height),
                static_cast<unsigned>(view.shape.width)},
        memory_(device) {
    Stream stream(device);
    const auto keep = [&](const void* from, std::size_t bytes) {
      Buffer copy((bytes + sizeof(float) - 1) / sizeof(float), memory_);
      stream.upload(from, copy.data(), bytes);
      return copy;
    };
    STARLING_CHECK((view.bytes == nullptr) != (view.floats == nullptr));
    if (view.bytes != nullptr) bytes_ = keep(view.bytes, view.shape.size());
    if (view.floats != nullptr) floats_ = keep(view.floats, view.shape.size() * sizeof(float));
    labels_ = keep(view.labels, static_cast<std::size_t>(view.shape.batch));
    scale_ = keep(view.scale.data(), view.scale.size_bytes());
    shift_ = keep(view.shift.data(), view.shift.size_bytes());
    stream.wait();
  }

  void gather(Queue& queue, const Choice* choices, int count, float* images,
              std::int32_t* labels) const override {
    if (count == 0) return;
    if (bytes_.size() > 0) {
      start<std::uint8_t>(stream_of(queue), choices, count, bytes_, images, labels);
    } else {
      start<float>(stream_of(queue), choices, count, floats_, images, labels);
    }
  }

 private:
  template <class T>
  void start(Stream& stream, const Choice* choices, int count, const Buffer& from, float* images,
             std::int32_t* labels) const {
    constexpr unsigned kTurns = 8;  // approximate values per thread
    const unsigned size = images_.channels * images_.height * images_.width;
    const unsigned parts = blocks_for(size, kThreads * kTurns);
    launch_together(stream, parts * static_cast<unsigned>(count), kThreads, gather_samples<T>, images_, parts,
                    choices, values<T>(from.data()), values<std::uint8_t>(labels_.data()), scale_.data(),
                    shift_.data(), images, labels);
  }

  Images images_;
  DeviceMemory memory_;
  Buffer bytes_, floats_;  // one of them is empty
  Buffer labels_, scale_, shift_;
};

}  // namespace

std::unique_ptr<Samples> make_samples(int device, const SampleView& samples) {
  return std::make_unique<DeviceSamples>(device, samples);
}

}  // namespace starling::kernels::cuda

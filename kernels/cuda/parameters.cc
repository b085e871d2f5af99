#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "kernels/cuda/parameters.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/processor.h"
#include "kernels/cuda/passes.h"

namespace starling::kernels::cuda {
namespace {

// 128 KiB: the device's copy engines reach half their speed, and several fit into the host's caches.
constexpr std::size_t kPiece = 32 * 1024;  // floats
static_assert(kPiece % kInt8Block == 0);

// The host's passes between pinned memory and an exchange.

// to = from. Returns the largest magnitude, where NaN is larger than infinity; 0 if n is 0.
STARLING_FOR_PROCESSORS float copy_and_look(const float* __restrict from, float* __restrict to,
                                            std::size_t n) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = from[i];
    const std::int32_t bits = magnitude_bits(value);
    largest = bits > largest ? bits : largest;
    to[i] = value;
  }
  return std::bit_cast<float>(largest);
}

float larger_magnitude(float a, float b) { return magnitude_bits(a) > magnitude_bits(b) ? a : b; }

// out = w (theirs - own).
STARLING_FOR_PROCESSORS void scaled_difference(const float* __restrict theirs, const float* __restrict own,
                                               float w, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = w * (theirs[i] - own[i]);
}

}  // namespace

DeviceParameters::Stage::Stage(int number, Memory& pinned, Memory& memory)
    : host(kPiece, pinned), device(kPiece, memory), free(number) {}

DeviceParameters::DeviceParameters(int device, std::size_t floats)
    : device_(device),
      memory_(device),
      pinned_(device),
      values_(floats, memory_),
      stream_(device),
      stages_{Stage(device, pinned_, memory_), Stage(device, pinned_, memory_),
              Stage(device, pinned_, memory_)} {}

DeviceParameters::~DeviceParameters() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_.get());  // before the stages are released
}

void DeviceParameters::wait() {
  const std::lock_guard lock(mutex_);
  stream_.wait();
}

DeviceParameters::Stage& DeviceParameters::next_stage() {
  Stage& stage = stages_[stage_];
  stage_ = (stage_ + 1) % kStages;
  stage.free.wait();
  return stage;
}

template <class Fill, class Use>
void DeviceParameters::send(std::size_t n, const Fill& fill, const Use& use) {
  const std::lock_guard lock(mutex_);
  use_device(device_);
  for (std::size_t begin = 0; begin < n; begin += kPiece) {
    const std::size_t count = std::min(kPiece, n - begin);
    Stage& stage = next_stage();
    fill(stage.host.data(), begin, count);
    stream_.upload(stage.host.data(), stage.device.data(), count * sizeof(float));
    use(stage.device.data(), begin, count);
    stage.free.record(stream_);
  }
}

template <class Fill>
void DeviceParameters::send_and_add(std::size_t offset, std::size_t n, bool atomic, const Fill& fill) {
  send(n, fill, [&](const float* delta, std::size_t begin, std::size_t count) {
    cuda::add(stream_, at(offset + begin), delta, count, atomic);
  });
}

template <class Bring, class Take>
void DeviceParameters::fetch(std::size_t n, const Bring& bring, const Take& take) {
  const std::lock_guard lock(mutex_);
  use_device(device_);
  // One piece is copied while the one before is taken from pinned memory.
  Stage* coming = nullptr;
  for (std::size_t begin = 0; begin < n || coming != nullptr; begin += kPiece) {
    Stage* next = nullptr;
    if (begin < n) {
      next = &next_stage();
      bring(*next, begin, std::min(kPiece, n - begin));
      next->free.record(stream_);
    }
    if (coming != nullptr) {
      coming->free.wait();
      const std::size_t before = begin - kPiece;
      take(coming->host.data(), before, std::min(kPiece, n - before));
    }
    coming = next;
  }
}

float DeviceParameters::read(std::size_t offset, std::span<float> out) {
  float largest = 0;
  fetch(
      out.size(),
      [&](Stage& stage, std::size_t begin, std::size_t count) {
        stream_.download(at(offset + begin), stage.host.data(), count * sizeof(float));
      },
      [&](const float* piece, std::size_t begin, std::size_t count) {
        largest = larger_magnitude(largest, copy_and_look(piece, out.data() + begin, count));
      });
  return largest;
}

// A stage has the largest magnitude of each block, which determines its step, then the packed values.
std::optional<float> DeviceParameters::read_packed(std::size_t offset, std::size_t n, Packing packing,
                                                   std::uint64_t seed, std::span<std::byte> out) {
  const std::size_t bytes_each = packing == Packing::bf16 ? sizeof(std::uint16_t) : sizeof(std::int8_t);
  std::byte* const values = out.data() + out.size() - n * bytes_each;
  float largest = 0;
  fetch(
      n,
      [&](Stage& stage, std::size_t begin, std::size_t count) {
        const std::size_t blocks = int8_blocks(count);
        float* const device = stage.device.data();
        pack(stream_, at(offset + begin), count, packing, int8_seed(seed), static_cast<std::uint32_t>(begin),
             device, device + blocks);
        stream_.download(device, stage.host.data(), blocks * sizeof(float) + count * bytes_each);
      },
      [&](const float* piece, std::size_t begin, std::size_t count) {
        const std::size_t blocks = int8_blocks(count);
        for (std::size_t k = 0; k < blocks; ++k) {
          largest = larger_magnitude(largest, piece[k]);
          if (packing == Packing::bf16) continue;
          const float step = int8_steps(piece[k]).step;
          std::memcpy(out.data() + (begin / kInt8Block + k) * sizeof step, &step, sizeof step);
        }
        std::memcpy(values + begin * bytes_each, piece + blocks, count * bytes_each);
      });
  return largest;
}

void DeviceParameters::write(std::size_t offset, std::span<const float> values) {
  send(
      values.size(),
      [&](float* to, std::size_t begin, std::size_t count) { std::copy_n(values.data() + begin, count, to); },
      [&](const float* piece, std::size_t begin, std::size_t count) {
        check(cudaMemcpyAsync(at(offset + begin), piece, count * sizeof(float), cudaMemcpyDeviceToDevice,
                              stream_.get()),
              "cudaMemcpyAsync");
      });
  wait();
}

void DeviceParameters::add(std::size_t offset, std::span<const float> delta) {
  send_and_add(offset, delta.size(), false, [&](float* to, std::size_t begin, std::size_t count) {
    std::copy_n(delta.data() + begin, count, to);
  });
}

void DeviceParameters::atomic_add(std::size_t offset, std::span<const float> delta) {
  send_and_add(offset, delta.size(), true, [&](float* to, std::size_t begin, std::size_t count) {
    std::copy_n(delta.data() + begin, count, to);
  });
}

// Both vectors are on the host, so sending their difference halves the copy.
void DeviceParameters::mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own,
                           float w) {
  send_and_add(offset, own.size(), false, [&](float* to, std::size_t begin, std::size_t count) {
    scaled_difference(theirs.data() + begin, own.data() + begin, w, to, count);
  });
}

void DeviceParameters::mix_at(std::size_t offset, std::span<const std::uint32_t> places,
                              std::span<const float> theirs, std::span<const float> own, float w,
                              std::span<float> mixed) {
  const std::lock_guard lock(mutex_);
  use_device(device_);
  constexpr std::size_t kPlaces = kPiece / 3;  // a stage has places, differences and results
  for (std::size_t begin = 0; begin < places.size(); begin += kPlaces) {
    const std::size_t count = std::min(kPlaces, places.size() - begin);
    Stage& stage = next_stage();
    float* const host = stage.host.data();
    float* const device = stage.device.data();
    std::memcpy(host, places.data() + begin, count * sizeof(std::uint32_t));
    scaled_difference(theirs.data() + begin, own.data() + begin, w, host + kPlaces, count);
    stream_.upload(host, device, 2 * kPlaces * sizeof(float));
    add_at(stream_, at(offset), reinterpret_cast<const std::uint32_t*>(device), device + kPlaces,
           device + 2 * kPlaces, count);
    stream_.download(device + 2 * kPlaces, host + 2 * kPlaces, count * sizeof(float));
    stage.free.record(stream_);
    stage.free.wait();
    std::copy_n(host + 2 * kPlaces, count, mixed.data() + begin);
  }
}

void DeviceParameters::add(Queue& queue, std::size_t offset, std::span<const float> delta) {
  cuda::add(stream_of(queue), at(offset), delta.data(), delta.size());
}

void DeviceParameters::sgd(Queue& queue, std::span<const float> gradient, std::span<float> velocity,
                           const SgdStep& step) {
  cuda::sgd(stream_of(queue), values_.data(), gradient.data(), velocity.data(), step, velocity.size());
}

void DeviceParameters::adamw(Queue& queue, std::span<const float> gradient, std::span<float> mean,
                             std::span<float> square, const AdamWStep& step, std::uint64_t t) {
  cuda::adamw(stream_of(queue), values_.data(), gradient.data(), mean.data(), square.data(), step, t,
              mean.size());
}

void DeviceParameters::sgd_along(Queue& queue, std::span<const float> gradient,
                                 std::span<const float> velocity, const SgdStep& step) {
  cuda::sgd_along(stream_of(queue), values_.data(), gradient.data(), velocity.data(), step, velocity.size());
}

void DeviceParameters::clip(Queue& queue, std::span<const float> gradient, float limit, Clip* clip) {
  cuda::clip(stream_of(queue), gradient.data(), gradient.size(), limit, clip);
}

void DeviceParameters::follow(Queue& queue, std::span<float> velocity, std::span<float> last, float keep,
                              float gain) {
  cuda::follow(stream_of(queue), values_.data(), velocity.data(), last.data(), keep, gain, last.size());
}

// The calling thread may have used another device.
void DeviceParameters::mix(Queue& queue, std::span<const float> theirs, std::span<const float> own, float w,
                           MixMeasure* measure) {
  use_device(device_);
  cuda::mix(stream_of(queue), values_.data(), theirs.data(), own.data(), w, measure, own.size());
}

void DeviceParameters::copy(Queue& queue, std::size_t offset, std::span<float> to) {
  check(cudaMemcpyAsync(to.data(), at(offset), to.size() * sizeof(float), cudaMemcpyDeviceToDevice,
                        stream_of(queue).get()),
        "cudaMemcpyAsync");
}

}  // namespace starling::kernels::cuda

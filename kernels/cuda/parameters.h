// A replica's floats in the device's memory. Workers change them through their streams. The exchange's data
// passes through pinned memory and a separate stream, in pieces that overlap, and no worker waits for it.
#pragma once

#include <array>
#include <mutex>

#include "kernels/buffer.h"
#include "kernels/cuda/runtime.h"
#include "kernels/parameters.h"

namespace starling::kernels::cuda {

class DeviceParameters final : public Parameters {
 public:
  DeviceParameters(int device, std::size_t floats);
  ~DeviceParameters() override;

  const float* data() const override { return values_.data(); }
  void wait() override;

  float read(std::size_t offset, std::span<float> out) override;
  std::optional<float> read_packed(std::size_t offset, std::size_t count, Packing packing, std::uint64_t seed,
                                   std::span<std::byte> out) override;
  void write(std::size_t offset, std::span<const float> values) override;
  void add(std::size_t offset, std::span<const float> delta) override;
  void atomic_add(std::size_t offset, std::span<const float> delta) override;
  void mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own, float w) override;
  void mix_at(std::size_t offset, std::span<const std::uint32_t> places, std::span<const float> theirs,
              std::span<const float> own, float w, std::span<float> mixed) override;

  void add(Queue& queue, std::size_t offset, std::span<const float> delta) override;
  void sgd(Queue& queue, std::span<const float> gradient, std::span<float> velocity,
           const SgdStep& step) override;
  void adamw(Queue& queue, std::span<const float> gradient, std::span<float> mean, std::span<float> square,
             const AdamWStep& step, std::uint64_t t) override;
  void sgd_along(Queue& queue, std::span<const float> gradient, std::span<const float> velocity,
                 const SgdStep& step) override;
  void clip(Queue& queue, std::span<const float> gradient, float limit, Clip* clip) override;
  void follow(Queue& queue, std::span<float> velocity, std::span<float> last, float keep,
              float gain) override;
  void mix(Queue& queue, std::span<const float> theirs, std::span<const float> own, float w,
           MixMeasure* measure) override;
  void copy(Queue& queue, std::size_t offset, std::span<float> to) override;

 private:
  // A piece in pinned memory and on the device; `free` is past when the device has finished with both.
  struct Stage {
    Stage(int device, Memory& pinned, Memory& memory);
    Buffer host, device;
    Event free;
  };

  // Waits until the next stage is free.
  Stage& next_stage();
  // For each piece of n floats: fill(pinned, begin, count) writes it, then use(device, begin, count) queues
  // work with it.
  template <class Fill, class Use>
  void send(std::size_t n, const Fill& fill, const Use& use);
  // For each piece of n floats: bring(stage, begin, count) queues its copy to the stage's pinned memory, then
  // take(pinned, begin, count) reads it.
  template <class Bring, class Take>
  void fetch(std::size_t n, const Bring& bring, const Take& take);
  template <class Fill>
  void send_and_add(std::size_t offset, std::size_t n, bool atomic, const Fill& fill);
  float* at(std::size_t offset) { return values_.data() + offset; }

  int device_;
  DeviceMemory memory_;
  PinnedMemory pinned_;
  Buffer values_;
  std::mutex mutex_;  // for all below
  Stream stream_;
  static constexpr std::size_t kStages = 3;
  std::array<Stage, kStages> stages_;
  std::size_t stage_ = 0;
};

}  // namespace starling::kernels::cuda

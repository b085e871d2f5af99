// A replica's floats in the device's memory. What workers do to them goes through their streams; what the
// exchange does travels through pinned memory and a stream of its own, a piece at a time, while the piece
// before is still under way, and no worker waits for it.
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
  void follow(Queue& queue, std::span<float> velocity, std::span<float> last, float keep,
              float gain) override;
  void mix(Queue& queue, std::span<const float> theirs, std::span<const float> own, float w,
           MixMeasure* measure) override;
  void copy(Queue& queue, std::size_t offset, std::span<float> to) override;

 private:
  // Pinned memory of a piece, and its twin on the device; `free` when the device is done with both.
  struct Stage {
    Stage(int device, Memory& pinned, Memory& memory);
    Buffer host, device;
    Event free;
  };

  // The next stage, when it is free.
  Stage& next_stage();
  // Lets fill(pinned, begin, count) write one piece after another of n floats, and has use(device, begin,
  // count) work with each on the device.
  template <class Fill, class Use>
  void send(std::size_t n, const Fill& fill, const Use& use);
  // Lets bring(stage, begin, count) have the device bring one piece after another of n floats into the
  // stage's pinned memory, and take(pinned, begin, count) take each out of it.
  template <class Bring, class Take>
  void fetch(std::size_t n, const Bring& bring, const Take& take);
  template <class Fill>
  void send_and_add(std::size_t offset, std::size_t n, bool atomic, const Fill& fill);
  float* at(std::size_t offset) { return values_.data() + offset; }

  int device_;
  DeviceMemory memory_;
  PinnedMemory pinned_;
  Buffer values_;
  std::mutex mutex_;  // of all below: the exchange's threads take turns
  Stream stream_;
  static constexpr std::size_t kStages = 3;
  std::array<Stage, kStages> stages_;
  std::size_t stage_ = 0;
};

}  // namespace starling::kernels::cuda

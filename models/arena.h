// The parameters of a replica: one contiguous, 64-byte-aligned array of floats, in the memory of the host or
// of a device, that Hogwild workers, the exchange and the evaluator share without a lock. Races occur only
// here and in arena.cc and, on a device, in kernels/cuda/parameters.cc, passes.cu and packing.cu.
//
// Why the races are sound: a float is aligned, so the hardware never tears one, and a reader gets for each
// element a value that was written there. Hogwild (Recht et al., NIPS 2011) and the difference exchange need
// no more: every function treats its elements one by one and promises nothing between them. Racing plain
// loads and stores are undefined in C++, but compilers do not vectorize relaxed atomic_refs. So the plain
// loops are only in arena.cc, in functions that are not inlined, and only that file is exempt from
// ThreadSanitizer. The cost of a race is a lost update of an element: an add between another thread's read
// and write is overwritten. The tests of training/mixing measure how often; atomic_add loses none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/parameters.h"

namespace starling::kernels {
class Backend;
}

namespace starling::models {

class Arena {
 public:
  // `size` zeros, on the host or in the memory of the back end, which outlives the arena.
  explicit Arena(std::size_t size);
  Arena(std::size_t size, const kernels::Backend& backend);
  // These floats, on the host and 64-byte-aligned, which outlive the arena.
  explicit Arena(std::span<float> memory);

  std::size_t size() const { return size_; }

  // The floats [offset, offset + count) of this arena, which outlives the part. Mixes are counted by the
  // whole. REQUIRES: this arena is on the host; `offset` is a multiple of 16.
  Arena part(std::size_t offset, std::size_t count);

  // For kernels, which accept that values change meanwhile. In the memory of the arena's device.
  const float* data() const { return parameters_->data(); }

  // The number of exchanges that were mixed into the whole arena.
  void count_mix() { mixes_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t mixes() const { return mixes_.load(std::memory_order_relaxed); }

  // Waits until a device has finished the functions below.
  void wait() const { parameters_->wait(); }

  // Each of these is one pass over [offset, offset + n) floats, where n is the length of all spans. They may
  // run at the same time on any threads. REQUIRES: offset + n <= size(). out = x. Returns the largest
  // magnitude, where NaN is larger than infinity; 0 if n is 0.
  float read(std::size_t offset, std::span<float> out) const;
  // The same for `count` floats, packed as by training::encode; nullopt if the arena is on the host, which
  // does not pack. REQUIRES: out.size() == packed_bytes(packing, count).
  std::optional<float> read_packed(std::size_t offset, std::size_t count, kernels::Packing packing,
                                   std::uint64_t seed, std::span<std::byte> out) const;
  void write(std::size_t offset, std::span<const float> values);  // x = values
  void add(std::size_t offset, std::span<const float> delta);     // x += delta, may lose an update
  // x += delta, loses no update, 20 times slower.
  void atomic_add(std::size_t offset, std::span<const float> delta);

  // An exchange, with the two vectors that were sent: x += w (theirs - own).
  void mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own, float w);

  // The same only at some places, counted from `offset`; `mixed` receives the results. REQUIRES: the spans
  // are as long as `places`; all places are below size() - offset.
  void mix_at(std::size_t offset, std::span<const std::uint32_t> places, std::span<const float> theirs,
              std::span<const float> own, float w, std::span<float> mixed);

  // Workers' passes over the arena's first floats, as many as the spans have (Layout::trained_size()), in the
  // order of `queue`. On a device the spans are in its memory, and the results are visible to others some
  // time after the call. kernels/parameters.h has the arithmetic.
  using SgdStep = kernels::SgdStep;
  void sgd(std::span<const float> gradient, std::span<float> velocity, const SgdStep& step,
           kernels::Queue& queue = kernels::host_queue());
  // REQUIRES: t > 0.
  using AdamWStep = kernels::AdamWStep;
  void adamw(std::span<const float> gradient, std::span<float> mean, std::span<float> square,
             const AdamWStep& step, std::uint64_t t, kernels::Queue& queue = kernels::host_queue());

  // The SGD step with a velocity that is only read: x -= learning_rate (momentum velocity + g').
  void sgd_along(std::span<const float> gradient, std::span<const float> velocity, const SgdStep& step,
                 kernels::Queue& queue = kernels::host_queue());
  // Computes the gain of a step that clips this gradient to the norm `limit`, above 0.
  using Clip = kernels::Clip;
  void clip(std::span<const float> gradient, float limit, Clip* clip,
            kernels::Queue& queue = kernels::host_queue()) const;
  // velocity = keep velocity + gain (last - x); last = x.
  void follow(std::span<float> velocity, std::span<float> last, float keep, float gain,
              kernels::Queue& queue = kernels::host_queue()) const;

  // An exchange within the machine: x += w (theirs - own). *measure, in the memory of the arena's device, is
  // updated.
  using MixMeasure = kernels::MixMeasure;
  void mix(std::span<const float> theirs, std::span<const float> own, float w, MixMeasure* measure,
           kernels::Queue& queue);

  // A worker's add() and read(): x += delta; to = x.
  void add(std::size_t offset, std::span<const float> delta, kernels::Queue& queue);
  void copy(std::size_t offset, std::span<float> to, kernels::Queue& queue) const;

 private:
  void check(std::size_t offset, std::size_t count) const;

  std::size_t size_;
  std::unique_ptr<kernels::Parameters> parameters_;
  std::atomic<std::uint64_t> mixes_{0};
};

}  // namespace starling::models

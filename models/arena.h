// The parameters of a replica: one contiguous, 64-byte-aligned array of floats, in the memory of the host or
// of a device, that Hogwild workers, the exchange and the evaluator share without a lock. This header and its
// arena.cc, and on a device kernels/cuda/parameters.cc, passes.cu and packing.cu, are the only place where
// races happen.
//
// Why they are sound. A float is aligned, so the hardware never tears one; what a reader sees is for each
// element some value that was written there. Hogwild (Recht et al., NIPS 2011) and the difference exchange
// both want exactly that and no more: every function below treats its elements one by one and promises
// nothing between them. Formally, plain loads and stores that race are undefined in C++, and relaxed
// atomic_refs are not, but compilers do not vectorise the latter; so the plain loops live in arena.cc alone,
// behind calls that the optimizer cannot see through, and that file is exempt from ThreadSanitizer (no other
// file is). What a race costs is a lost element update: an add that lands between another thread's read and
// write of the same float is overwritten. The tests measure how often (training/exchange tests); atomic_add
// exists for those that want none.
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
  // `size` floats, zero, on the host; or where the back end computes, which outlives the arena.
  explicit Arena(std::size_t size);
  Arena(std::size_t size, const kernels::Backend& backend);

  std::size_t size() const { return size_; }

  // For readers that only compute with the values (the kernels' inputs) and accept that they change
  // meanwhile. In the memory of the arena's device.
  const float* data() const { return parameters_->data(); }

  // How many exchanges have been mixed with the whole of it: whoever mixes counts, workers that want to know
  // ask.
  void count_mix() { mixes_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t mixes() const { return mixes_.load(std::memory_order_relaxed); }

  // Until what the functions below have asked of a device is done.
  void wait() const { parameters_->wait(); }

  // Each of these is one pass over [offset, offset + n) floats, n being the spans' length (equal where there
  // are several); any number of them may run at once, on any threads. REQUIRES: offset + n <= size().
  // out = x. Returns the largest magnitude among them, where NaN is larger than infinity; 0 of none.
  float read(std::size_t offset, std::span<float> out) const;
  // The same of `count` floats, packed as training::encode packs them: nothing where the arena's memory does
  // not do that by itself. REQUIRES: out.size() == packed_bytes(packing, count).
  std::optional<float> read_packed(std::size_t offset, std::size_t count, kernels::Packing packing,
                                   std::uint64_t seed, std::span<std::byte> out) const;
  void write(std::size_t offset, std::span<const float> values);  // x = values
  void add(std::size_t offset, std::span<const float> delta);  // x += delta, vectorised, may lose an update
  void atomic_add(std::size_t offset,
                  std::span<const float> delta);  // x += delta, loses nothing, 20 times slower

  // An exchange, with the two vectors that travelled: x += w (theirs - own).
  void mix(std::size_t offset, std::span<const float> theirs, std::span<const float> own, float w);

  // The same at some places alone, counted from `offset`; `mixed` gets what is there afterwards.
  // REQUIRES: the spans are as long as `places`, whose largest is below size() - offset.
  void mix_at(std::size_t offset, std::span<const std::uint32_t> places, std::span<const float> theirs,
              std::span<const float> own, float w, std::span<float> mixed);

  // What workers do: each is one pass over the arena's first floats, as many as the spans hold, all equally
  // long (the trained ones: Layout::trained_size()), in the order of `queue`. On a device the spans, too, lie
  // in its memory, and what is written here is seen by others some time after the call. The steps' arithmetic:
  // kernels/parameters.h.
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
  // velocity = keep velocity + gain (last - x); last = x.
  void follow(std::span<float> velocity, std::span<float> last, float keep, float gain,
              kernels::Queue& queue = kernels::host_queue()) const;

  // An exchange within the machine: x += w (theirs - own). *measure, in the memory of the arena's device, goes
  // on from what it is.
  using MixMeasure = kernels::MixMeasure;
  void mix(std::span<const float> theirs, std::span<const float> own, float w, MixMeasure* measure,
           kernels::Queue& queue);

  // As add() and read() above, of a worker: x += delta; to = x.
  void add(std::size_t offset, std::span<const float> delta, kernels::Queue& queue);
  void copy(std::size_t offset, std::span<float> to, kernels::Queue& queue) const;

 private:
  void check(std::size_t offset, std::size_t count) const;

  std::size_t size_;
  std::unique_ptr<kernels::Parameters> parameters_;
  std::atomic<std::uint64_t> mixes_{0};
};

}  // namespace starling::models

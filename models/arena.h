// The parameters of a replica: one contiguous, 64-byte-aligned array of floats that Hogwild workers, the
// exchange and the evaluator share without a lock. This header and its arena.cc are the only place where
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
#include <span>

namespace starling::models {

class Arena {
 public:
  // `size` floats, zero.
  explicit Arena(std::size_t size);

  std::size_t size() const { return size_; }

  // For readers that only compute with the values (the kernels' inputs) and accept that they change
  // meanwhile.
  const float* data() const { return data_.get(); }

  // How many exchanges have been mixed with the whole of it: whoever mixes counts, workers that want to know
  // ask.
  void count_mix() { mixes_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t mixes() const { return mixes_.load(std::memory_order_relaxed); }

  // Each of these is one pass over [offset, offset + n) floats, n being the spans' length (equal where there
  // are several); any number of them may run at once, on any threads. REQUIRES: offset + n <= size().
  // out = x. Returns the largest magnitude among them, where NaN is larger than infinity; 0 of none.
  float read(std::size_t offset, std::span<float> out) const;
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

  // The optimizers: each is one pass over the arena's first floats, as many as the spans hold, all equally
  // long (the trained ones: Layout::trained_size()). SGD: g' = g + weight_decay x; v = momentum v + g'; x -=
  // learning_rate (nesterov ? g' + momentum v : v).
  struct SgdStep {
    float learning_rate;
    float momentum = 0;
    float weight_decay = 0;
    bool nesterov = false;
  };
  void sgd(std::span<const float> gradient, std::span<float> velocity, SgdStep step);

  // Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization",
  // ICLR 2019, algorithm 2): m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
  // x -= learning_rate (m^ / (sqrt(v^) + epsilon) + weight_decay x), where m^ = m / (1 - beta1^t) and
  // v^ = v / (1 - beta2^t) in the t-th step, `mean` being m and `square` v.
  struct AdamWStep {
    float learning_rate;
    float beta1 = 0.9F, beta2 = 0.999F;
    float epsilon = 1e-8F;
    float weight_decay = 0;
  };
  // REQUIRES: t > 0.
  void adamw(std::span<const float> gradient, std::span<float> mean, std::span<float> square, AdamWStep step,
             std::uint64_t t);

  // The SGD step with a velocity that is only read: x -= learning_rate (momentum velocity + g').
  void sgd_along(std::span<const float> gradient, std::span<const float> velocity, SgdStep step);
  // velocity = keep velocity + gain (last - x); last = x.
  void follow(std::span<float> velocity, std::span<float> last, float keep, float gain) const;

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::size_t size_;
  std::unique_ptr<float[], Free> data_;
  std::atomic<std::uint64_t> mixes_{0};
};

}  // namespace starling::models

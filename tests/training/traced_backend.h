// A back end that measures by itself how long its operations run: a tracer that knows nothing of stages. One
// thread computes with it.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "kernels/backend.h"

namespace starling::training::testing {

class Tracer {
 public:
  template <class Work>
  void measure(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
};

class TracedOperation final : public kernels::Operation {
 public:
  TracedOperation(std::unique_ptr<kernels::Operation> inner, Tracer& tracer)
      : Operation(inner->output(), inner->covers()), inner_(std::move(inner)), tracer_(tracer) {}

  void forward(const float* parameters, const float* x, float* y) override {
    tracer_.measure([&] { inner_->forward(parameters, x, y); });
  }
  void forward_again(const float* parameters, const float* x, float* y) override {
    tracer_.measure([&] { inner_->forward_again(parameters, x, y); });
  }
  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    tracer_.measure([&] { inner_->backward(parameters, x, y, dy, dx, gradient); });
  }
  bool works_in_place() const override { return inner_->works_in_place(); }
  bool keeps_dy() const override { return inner_->keeps_dy(); }
  void set_draws(std::uint64_t draws) override { inner_->set_draws(draws); }
  std::size_t scratch_floats() const override { return inner_->scratch_floats(); }
  void set_scratch(float* scratch) override { inner_->set_scratch(scratch); }

 private:
  std::unique_ptr<kernels::Operation> inner_;
  Tracer& tracer_;
};

// For networks without sums of branches.
class TracedBackend final : public kernels::Backend {
 public:
  explicit TracedBackend(const kernels::Backend& inner) : inner_(inner) {}
  double seconds() const { return tracer_.seconds(); }

  std::string_view name() const override { return inner_.name(); }
  kernels::Activation input(const kernels::Shape& stored, int height, int width) const override {
    return inner_.input(stored, height, width);
  }
  std::unique_ptr<kernels::Operation> make(kernels::Queue& queue,
                                           std::span<const kernels::OperationSpec> rest,
                                           const kernels::Activation& input,
                                           kernels::Passes passes) const override {
    return std::make_unique<TracedOperation>(inner_.make(queue, rest, input, passes), tracer_);
  }
  std::unique_ptr<kernels::Sum> make_sum(kernels::Queue& queue, const kernels::Activation& a,
                                         const kernels::Activation& b, bool relu) const override {
    return inner_.make_sum(queue, a, b, relu);
  }
  std::unique_ptr<kernels::Loss> softmax_cross_entropy(kernels::Queue& queue,
                                                       const kernels::Activation& logits) const override {
    return inner_.softmax_cross_entropy(queue, logits);
  }
  void accumulate(kernels::Queue& queue, const kernels::Activation& activation, float* gradient,
                  const float* more) const override {
    inner_.accumulate(queue, activation, gradient, more);
  }
  void pack(kernels::Queue& queue, const kernels::Activation& activation, const float* plain,
            float* stored) const override {
    inner_.pack(queue, activation, plain, stored);
  }
  void unpack(kernels::Queue& queue, const kernels::Activation& activation, const float* stored,
              float* plain) const override {
    inner_.unpack(queue, activation, stored, plain);
  }

 private:
  const kernels::Backend& inner_;
  mutable Tracer tracer_;
};

}  // namespace starling::training::testing

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/formats/conversion.h"
#include "kernels/cpu/sequences/loops.h"
#include "kernels/cpu/sequences/operations.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

using namespace sequences;  // NOLINT: the loops that this file is about

class HostEmbedding final : public Operation {
 public:
  HostEmbedding(const EmbeddingSpec& spec, const Activation& input)
      : Operation(plain_activation(output_shape(spec, input.shape)), 1),
        spec_(spec),
        x_(input, plain_activation(input.shape)) {}

  void forward(const float* parameters, const float* x, float* y) override {
    x = x_.convert(x);
    for (int n = 0; n < output().shape.batch; ++n)
      std::copy_n(parameters + row(x[n]), spec_.features, y + std::ptrdiff_t{n} * spec_.features);
  }

  void backward(const float*, const float* x, const float*, float* dy, float* dx, float* gradient) override {
    STARLING_CHECK(dx == nullptr);
    x = x_.converted(x);
    if (!spec_.shared)
      std::fill_n(gradient + spec_.weight, std::ptrdiff_t{spec_.tokens} * spec_.features, 0.0F);
    for (int n = 0; n < output().shape.batch; ++n)
      loops().add(spec_.features, gradient + row(x[n]), dy + std::ptrdiff_t{n} * spec_.features);
  }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes(); }

 private:
  std::ptrdiff_t row(float token) const {
    const auto number = static_cast<std::ptrdiff_t>(token);
    STARLING_CHECK(number >= 0 && number < spec_.tokens);
    return static_cast<std::ptrdiff_t>(spec_.weight) + number * spec_.features;
  }

  EmbeddingSpec spec_;
  Conversion x_;
};

class HostPosition final : public Operation {
 public:
  HostPosition(const PositionSpec& spec, const Activation& input)
      : Operation(plain_activation(input.shape), 1),
        spec_(spec),
        floats_(spec.context * input.shape.channels),
        x_(input, output()),
        dx_(output(), input) {}

  void forward(const float* parameters, const float* x, float* y) override {
    std::copy_n(x_.convert(x), output().floats, y);
    for_sequences([&](std::ptrdiff_t at) { loops().add(floats_, y + at, parameters + spec_.weight); });
  }

  void backward(const float*, const float*, const float*, float* dy, float* dx, float* gradient) override {
    std::fill_n(gradient + spec_.weight, floats_, 0.0F);
    for_sequences([&](std::ptrdiff_t at) { loops().add(floats_, gradient + spec_.weight, dy + at); });
    if (dx == nullptr) return;
    std::copy_n(dy, output().floats, dx_.target(dx));
    dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override { return x_.workspace_bytes() + dx_.workspace_bytes(); }

 private:
  template <class F>
  void for_sequences(const F& f) const {
    const std::ptrdiff_t end = static_cast<std::ptrdiff_t>(output().floats);
    for (std::ptrdiff_t at = 0; at < end; at += floats_) f(at);
  }

  PositionSpec spec_;
  int floats_;  // of a sequence
  Conversion x_, dx_;
};

}  // namespace

std::unique_ptr<Operation> make_embedding(const EmbeddingSpec& spec, const Activation& input) {
  return std::make_unique<HostEmbedding>(spec, input);
}
std::unique_ptr<Operation> make_position(const PositionSpec& spec, const Activation& input) {
  return std::make_unique<HostPosition>(spec, input);
}

}  // namespace starling::kernels::cpu

#include "models/network.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/buffer.h"
#include "models/lowering.h"

namespace starling::models {

struct Network::Impl {
  struct Step {
    std::unique_ptr<kernels::Operation> operation;
    kernels::Buffer output;
    bool input_gradient;  // whether an earlier step has parameters
  };

  int batch;
  std::vector<Step> steps;
  std::unique_ptr<kernels::Loss> loss;
  // The gradients of two neighboring activations, of which one is read and the other written; then they
  // change places.
  kernels::Buffer gradients[2];

  Impl(const Plan& plan, const kernels::Backend& backend, int batch_size, Purpose purpose)
      : batch(batch_size) {
    STARLING_CHECK(batch > 0);
    const Lowered lowered = lower(plan);
    const Shape& in = plan.spec.input;
    kernels::Activation activation =
        backend.input({batch, in.channels, in.height, in.width}, lowered.input_height, lowered.input_width);
    std::size_t largest = 0;
    bool trained = false;
    std::span<const kernels::OperationSpec> rest = lowered.operations;
    while (!rest.empty()) {
      const bool input_gradient = purpose == Purpose::train && trained;
      const kernels::Passes passes{purpose == Purpose::train, input_gradient};
      std::unique_ptr<kernels::Operation> operation = backend.make(rest, activation, passes);
      for (const auto& spec : rest.first(static_cast<std::size_t>(operation->covers()))) {
        trained = trained || std::holds_alternative<kernels::Convolution>(spec) ||
                  std::holds_alternative<kernels::Linear>(spec);
      }
      rest = rest.subspan(static_cast<std::size_t>(operation->covers()));
      activation = operation->output();
      largest = std::max(largest, activation.floats);
      steps.push_back({std::move(operation), kernels::Buffer(activation.floats), input_gradient});
    }
    loss = backend.softmax_cross_entropy(activation);
    if (purpose == Purpose::train) {
      for (kernels::Buffer& buffer : gradients) buffer = kernels::Buffer(largest);
    }
  }

  const float* forward(const float* parameters, const float* inputs) {
    const float* x = inputs;
    for (Step& step : steps) {
      step.operation->forward(parameters, x, step.output.data());
      x = step.output.data();
    }
    return x;
  }

  // From d(loss)/d(logits), in gradients[0], to the parameters.
  void backward(const float* parameters, const float* inputs, float* gradient) {
    float* dy = gradients[0].data();
    float* dx = gradients[1].data();
    for (std::size_t i = steps.size(); i-- > 0;) {
      const float* x = i == 0 ? inputs : steps[i - 1].output.data();
      const bool input_gradient = steps[i].input_gradient;
      steps[i].operation->backward(parameters, x, steps[i].output.data(), dy, input_gradient ? dx : nullptr,
                                   gradient);
      if (!input_gradient) return;
      std::swap(dy, dx);
    }
  }
};

Network::Network(const Plan& plan, const kernels::Backend& backend, int batch, Purpose purpose)
    : impl_(std::make_unique<Impl>(plan, backend, batch, purpose)) {}
Network::~Network() = default;
Network::Network(Network&&) noexcept = default;

int Network::batch() const {
  return impl_->batch;
}

double Network::train(const float* parameters, const float* inputs, const std::int32_t* labels,
                      float* gradient) {
  STARLING_CHECK(impl_->gradients[0].size() > 0);
  const float* logits = impl_->forward(parameters, inputs);
  const kernels::LossValue value = impl_->loss->train(logits, labels, impl_->gradients[0].data());
  impl_->backward(parameters, inputs, gradient);
  return value.sum / impl_->batch;
}

Network::Evaluation Network::evaluate(const float* parameters, const float* inputs,
                                      const std::int32_t* labels, int count) {
  STARLING_CHECK(count >= 0 && count <= impl_->batch);
  const float* logits = impl_->forward(parameters, inputs);
  const kernels::LossValue value = impl_->loss->evaluate(logits, labels, count);
  return {value.sum, value.correct, count};
}

std::size_t Network::memory_bytes() const {
  std::size_t bytes = impl_->gradients[0].bytes() + impl_->gradients[1].bytes();
  for (const Impl::Step& step : impl_->steps)
    bytes += step.output.bytes() + step.operation->workspace_bytes();
  return bytes;
}

}  // namespace starling::models

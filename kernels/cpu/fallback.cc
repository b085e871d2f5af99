#include "kernels/cpu/fallback.h"

#include "kernels/cpu/conversion.h"
#include "kernels/plain.h"
#include "kernels/reference/backend.h"

namespace starling::kernels::cpu {
namespace {

class Fallback final : public Operation {
 public:
  Fallback(std::unique_ptr<Operation> definition, const Activation& input)
      : Operation(definition->output(), 1),
        definition_(std::move(definition)),
        x_(input, plain_activation(input.shape)),
        dx_(plain_activation(input.shape), input) {}

  void forward(const float* parameters, const float* x, float* y) override {
    definition_->forward(parameters, x_.convert(x), y);
  }
  void forward_again(const float* parameters, const float* x, float* y) override {
    definition_->forward_again(parameters, x_.convert(x), y);
  }

  void backward(const float* parameters, const float* x, const float* y, float* dy, float* dx,
                float* gradient) override {
    definition_->backward(parameters, x_.convert(x), y, dy, dx == nullptr ? nullptr : dx_.target(dx),
                          gradient);
    if (dx != nullptr) dx_.finish(dx);
  }

  std::size_t workspace_bytes() const override {
    return definition_->workspace_bytes() + x_.workspace_bytes() + dx_.workspace_bytes();
  }

 private:
  std::unique_ptr<Operation> definition_;
  Conversion x_, dx_;
};

}  // namespace

std::unique_ptr<Operation> make_fallback(const OperationSpec& spec, const Activation& input, Passes passes) {
  const OperationSpec rest[] = {spec};
  auto definition = reference::make_backend()->make(rest, plain_activation(input.shape), passes);
  return std::make_unique<Fallback>(std::move(definition), input);
}

}  // namespace starling::kernels::cpu

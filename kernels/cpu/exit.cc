#include "base/check.h"
#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/lanes/format.h"
#include "kernels/cpu/lanes_operations.h"
#include "kernels/cpu/operations.h"
#include "kernels/plain.h"

namespace starling::kernels::cpu {
namespace {

class PlainExit final : public Operation {
 public:
  explicit PlainExit(const Activation& input)
      : Operation(plain_activation(input.shape), 0),
        y_(describe(input), describe(output()), Scratchpad::shared),
        dx_(describe(output()), describe(input), Scratchpad::shared) {
    STARLING_CHECK(y_.needed());
  }

  // Both write where the values belong and need no scratch.
  void forward(const float*, const float* x, float* y) override { y_.convert(x, y); }
  void backward(const float*, const float*, const float*, float* dy, float* dx, float*) override {
    if (dx != nullptr) dx_.convert(dy, dx);
  }

  std::size_t workspace_bytes() const override { return y_.workspace_bytes() + dx_.workspace_bytes(); }

 private:
  Reorder y_, dx_;
};

}  // namespace

std::unique_ptr<Operation> make_exit(const Activation& input) {
  if (lanes::is_lanes(input)) return lanes::make_exit(input);
  return std::make_unique<PlainExit>(input);
}

}  // namespace starling::kernels::cpu

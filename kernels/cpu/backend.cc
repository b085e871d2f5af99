#include "kernels/cpu/backend.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/format.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/relu.h"

namespace starling::kernels::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  Activation input(const Shape& stored, int height, int width) const override {
    return plain_window(stored, height, width);
  }

  std::unique_ptr<Operation> make(std::span<const OperationSpec> rest, const Activation& input,
                                  Passes passes) const override {
    STARLING_CHECK(!rest.empty());
    keep_to_one_thread();
    const bool relu_next = rest.size() > 1 && std::holds_alternative<Relu>(rest[1]);
    if (const auto* it = std::get_if<Convolution>(&rest[0]))
      return make_convolution(*it, input, passes, relu_next);
    if (const auto* it = std::get_if<Linear>(&rest[0])) return make_linear(*it, input, passes, relu_next);
    if (const auto* it = std::get_if<AveragePool>(&rest[0])) return make_average_pool(*it, input, passes);
    if (const auto* it = std::get_if<MaxPool>(&rest[0])) return make_max_pool(*it, input, passes);
    return make_relu(input);
  }

  std::unique_ptr<Loss> softmax_cross_entropy(const Activation& logits) const override {
    keep_to_one_thread();
    return make_softmax_cross_entropy(logits);
  }

  void pack(const Activation& activation, const float* plain, float* stored) const override {
    convert(plain_format(image_dims(activation.shape)), plain, describe(activation), stored);
  }
  void unpack(const Activation& activation, const float* stored, float* plain) const override {
    convert(describe(activation), stored, plain_format(image_dims(activation.shape)), plain);
  }

 private:
  static void convert(const memory::desc& from_format, const float* from, const memory::desc& to_format,
                      float* to) {
    Reorder reorder(from_format, to_format);
    if (reorder.needed()) {
      reorder.convert(from, to);
    } else {
      std::copy_n(from, floats(from_format), to);
    }
  }
};

}  // namespace

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace starling::kernels::cpu

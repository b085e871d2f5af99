#include "kernels/cpu/backend.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/batch_norm.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/format.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/global_pool.h"
#include "kernels/cpu/group_norm.h"
#include "kernels/cpu/lanes/format.h"
#include "kernels/cpu/lanes/operations.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/relu.h"
#include "kernels/cpu/sum.h"
#include "kernels/cpu/vector_loops.h"

namespace starling::kernels::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(Choice choice) : choice_(choice) {}

  std::string_view name() const override { return "cpu"; }

  Activation input(const Shape& stored, int height, int width) const override {
    return plain_window(stored, height, width);
  }

  std::unique_ptr<Operation> make(std::span<const OperationSpec> rest, const Activation& input,
                                  Passes passes) const override {
    STARLING_CHECK(!rest.empty());
    keep_to_one_thread();
    if (in_lanes(input)) {
      if (auto operation = lanes::make(rest, input, passes)) return operation;
      if (lanes::is_lanes(input)) return lanes::make_exit(input);
    }
    return make_with_onednn(rest, input, passes);
  }

  std::unique_ptr<Sum> make_sum(const Activation& a, const Activation& b, bool relu) const override {
    keep_to_one_thread();
    return cpu::make_sum(a, b, relu);
  }

  std::unique_ptr<Loss> softmax_cross_entropy(const Activation& logits) const override {
    keep_to_one_thread();
    return make_softmax_cross_entropy(logits);
  }

  void accumulate(const Activation& activation, float* gradient, const float* more) const override {
    add(gradient, more, gradient, activation.floats);
  }

  void pack(const Activation& activation, const float* plain, float* stored) const override {
    if (lanes::is_lanes(activation)) return lanes::pack(plain_activation(activation.shape), plain, stored);
    convert(plain_format(image_dims(activation.shape)), plain, describe(activation), stored);
  }
  void unpack(const Activation& activation, const float* stored, float* plain) const override {
    if (lanes::is_lanes(activation)) return lanes::unpack(plain_activation(activation.shape), stored, plain);
    convert(describe(activation), stored, plain_format(image_dims(activation.shape)), plain);
  }

 private:
  bool in_lanes(const Activation& input) const {
    if (lanes::is_lanes(input)) return true;
    if (choice_ == Choice::onednn || lanes::kernels() == nullptr || as_plain(input) == nullptr) return false;
    return choice_ == Choice::lanes || lanes::suits(input);
  }

  static std::unique_ptr<Operation> make_with_onednn(std::span<const OperationSpec> rest,
                                                     const Activation& input, Passes passes) {
    const bool relu_next = rest.size() > 1 && std::holds_alternative<Relu>(rest[1]);
    if (const auto* it = std::get_if<Convolution>(&rest[0]))
      return make_convolution(*it, input, passes, relu_next);
    if (const auto* it = std::get_if<Linear>(&rest[0])) return make_linear(*it, input, passes, relu_next);
    if (const auto* it = std::get_if<AveragePool>(&rest[0])) return make_average_pool(*it, input, passes);
    if (const auto* it = std::get_if<MaxPool>(&rest[0])) return make_max_pool(*it, input, passes);
    if (const auto* it = std::get_if<BatchNorm>(&rest[0]))
      return make_batch_norm(*it, input, passes, relu_next);
    if (const auto* it = std::get_if<GroupNorm>(&rest[0]))
      return make_group_norm(*it, input, passes, relu_next);
    if (const auto* it = std::get_if<Dropout>(&rest[0])) return make_dropout(*it, input, passes);
    if (std::holds_alternative<GlobalAveragePool>(rest[0])) return make_global_average_pool(input);
    if (std::holds_alternative<Gelu>(rest[0])) return make_gelu(input, passes);
    return make_relu(input);
  }

  static void convert(const memory::desc& from_format, const float* from, const memory::desc& to_format,
                      float* to) {
    Reorder reorder(from_format, to_format);
    if (reorder.needed()) {
      reorder.convert(from, to);
    } else {
      std::copy_n(from, floats(from_format), to);
    }
  }

  Choice choice_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(Choice choice) {
  return std::make_unique<CpuBackend>(choice);
}

}  // namespace starling::kernels::cpu

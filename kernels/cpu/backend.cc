#include "kernels/cpu/backend.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/formats/format.h"
#include "kernels/cpu/lanes/format.h"
#include "kernels/cpu/lanes_operations.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/sequences/operations.h"
#include "kernels/cpu/tiles/convolution.h"
#include "kernels/cpu/tiles/stack.h"
#include "kernels/cpu/tiles/tiles.h"
#include "kernels/cpu/vectors/vector_loops.h"

namespace starling::kernels::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(Precision precision, Choice choice)
      : choice_(choice),
        type_(precision == Precision::bf16 ? Type::bf16 : Type::f32),
        tiles_(type_ == Type::bf16 && choice != Choice::onednn && tiles::available()) {}

  std::string_view name() const override { return "cpu"; }

  Activation input(const Shape& stored, int height, int width) const override {
    return plain_window(stored, height, width);
  }

  std::unique_ptr<Operation> make(Queue& /*queue*/, std::span<const OperationSpec> rest,
                                  const Activation& input, Passes passes) const override {
    keep_to_one_thread();
    if (rest.empty()) return make_exit(input);
    if (in_lanes(rest[0], input)) {
      if (lanes::is_lanes(input) && suits_tiles(rest[0], input)) return tiles::make_entrance(input);
      if (auto operation = lanes::make(rest, input, passes)) return operation;
      if (lanes::is_lanes(input)) return lanes::make_exit(input);
    }
    return make_with_onednn(rest, input, passes);
  }

  std::unique_ptr<Sum> make_sum(Queue& /*queue*/, const Activation& a, const Activation& b,
                                bool relu) const override {
    keep_to_one_thread();
    return cpu::make_sum(a, b, relu);
  }

  std::unique_ptr<Loss> softmax_cross_entropy(Queue& /*queue*/, const Activation& logits) const override {
    keep_to_one_thread();
    return make_softmax_cross_entropy(logits);
  }

  void accumulate(Queue& /*queue*/, const Activation& activation, float* gradient,
                  const float* more) const override {
    if (is_bf16(activation)) {
      auto* sum = values<Bfloat16>(gradient);
      return add(sum, values<Bfloat16>(more), sum, stored<Bfloat16>(activation));
    }
    add(gradient, more, gradient, activation.floats);
  }

  void pack(Queue& /*queue*/, const Activation& activation, const float* plain,
            float* stored) const override {
    if (lanes::is_lanes(activation)) return lanes::pack(plain_activation(activation.shape), plain, stored);
    convert(plain_format(image_dims(activation.shape)), plain, describe(activation), stored);
  }
  void unpack(Queue& /*queue*/, const Activation& activation, const float* stored,
              float* plain) const override {
    if (lanes::is_lanes(activation)) return lanes::unpack(plain_activation(activation.shape), stored, plain);
    convert(describe(activation), stored, plain_format(image_dims(activation.shape)), plain);
  }

 private:
  // Lanes compute in float32. With bfloat16 they serve first layers, whose few channels would leave tiles
  // empty.
  bool in_lanes(const OperationSpec& spec, const Activation& input) const {
    if (lanes::is_lanes(input)) return true;
    // The other layers for sequences are not computed in lanes.
    if (const auto* linear = std::get_if<LinearSpec>(&spec); linear != nullptr && linear->tokens)
      return false;
    if (choice_ == Choice::onednn || lanes::kernels() == nullptr || as_plain(input) == nullptr) return false;
    if (type_ == Type::bf16 && !(tiles_ && lanes::kernels()->lanes == tiles::kSide &&
                                 std::holds_alternative<ConvolutionSpec>(spec) && !suits_tiles(spec, input)))
      return false;
    return choice_ == Choice::lanes || lanes::suits(input);
  }
  bool suits_tiles(const OperationSpec& spec, const Activation& input) const {
    const auto* it = std::get_if<ConvolutionSpec>(&spec);
    return tiles_ && it != nullptr && tiles::suits(*it, input.shape);
  }

  // Convolutions and linear layers are in the back end's precision, other operations in their input's.
  std::unique_ptr<Operation> make_with_onednn(std::span<const OperationSpec> rest, const Activation& input,
                                              Passes passes) const {
    const bool relu_next = rest.size() > 1 && std::holds_alternative<ReluSpec>(rest[1]);
    if (const auto* it = std::get_if<ConvolutionSpec>(&rest[0])) {
      if (suits_tiles(*it, input)) return tiles::make_convolution(*it, input, passes, relu_next);
      return make_convolution(*it, input, passes, relu_next, type_, tiles_);
    }
    if (const auto* it = std::get_if<LinearSpec>(&rest[0])) {
      if (type_ == Type::f32 && choice_ != Choice::onednn && suits_text_linear(*it, input))
        return make_text_linear(*it, input, passes, relu_next);
      // Logits are float32.
      const bool last = rest.size() == 1;
      return make_linear(*it, input, passes, relu_next, type_, last ? Type::f32 : type_);
    }
    if (const auto* it = std::get_if<AveragePoolSpec>(&rest[0]))
      return tiles::is_stack(input) ? tiles::make_pool(*it, input) : make_average_pool(*it, input, passes);
    if (const auto* it = std::get_if<MaxPoolSpec>(&rest[0]))
      return tiles::is_stack(input) ? tiles::make_pool(*it, input) : make_max_pool(*it, input, passes);
    if (const auto* it = std::get_if<BatchNormSpec>(&rest[0]))
      return make_batch_norm(*it, input, passes, relu_next);
    if (const auto* it = std::get_if<GroupNormSpec>(&rest[0])) return make_group_norm(*it, input, relu_next);
    if (const auto* it = std::get_if<DropoutSpec>(&rest[0])) return make_dropout(*it, input, passes);
    if (std::holds_alternative<GlobalAveragePoolSpec>(rest[0])) return make_global_average_pool(input);
    if (const auto* it = std::get_if<GeluSpec>(&rest[0])) return make_gelu(*it, input, passes);
    if (std::holds_alternative<ReluSpec>(rest[0])) return make_relu(input);
    return make_for_sequences(rest[0], input, passes);
  }

  static std::unique_ptr<Operation> make_for_sequences(const OperationSpec& spec, const Activation& input,
                                                       Passes passes) {
    if (const auto* it = std::get_if<EmbeddingSpec>(&spec)) return make_embedding(*it, input);
    if (const auto* it = std::get_if<PositionSpec>(&spec)) return make_position(*it, input);
    if (const auto* it = std::get_if<AttentionSpec>(&spec)) return make_attention(*it, input, passes);
    if (const auto* it = std::get_if<RmsNormSpec>(&spec)) return make_rms_norm(*it, input);
    STARLING_CHECK(std::holds_alternative<SwigluSpec>(spec));
    return make_swiglu(input);
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
  Type type_;
  bool tiles_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(Precision precision, Choice choice) {
  return std::make_unique<CpuBackend>(precision, choice);
}

}  // namespace starling::kernels::cpu

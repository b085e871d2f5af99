#include "models/lowering.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "models/layer_types.h"

namespace starling::models {
namespace {

struct Extent {
  int height, width;
};

Extent whole(const Shape& shape) { return {shape.height, shape.width}; }

// The part of a layer's input that this part of its output depends on.
Extent needed(const LayerInfo& info, Extent out) {
  return std::visit(
      [&]<class T>(const T& layer) -> Extent {
        if constexpr (LayerType<T>::kReads == Reads::window) {
          const Window window = LayerType<T>::window(layer);
          const auto reach = [&](int outputs, int available) {
            return std::min((outputs - 1) * window.stride + window.size - window.padding, available);
          };
          return {reach(out.height, info.input.height), reach(out.width, info.input.width)};
        }
        return LayerType<T>::kReads == Reads::sample ? whole(info.input) : out;
      },
      info.layer.kind);
}

// Whether unread outputs can be omitted: only if no layer needs everything before it.
bool can_leave_out(const Plan& plan) {
  return std::all_of(plan.layers.begin(), plan.layers.end(), [](const LayerInfo& info) {
    return std::visit([]<class T>(const T&) { return LayerType<T>::kReads != Reads::other; },
                      info.layer.kind);
  });
}

class Lowering {
 public:
  Lowering(const Plan& plan, std::uint64_t seed) : plan_(plan), random_(seed) {}

  // The operation that computes this part of a layer's output.
  kernels::OperationSpec operator()(const LayerInfo& info, Extent out) {
    return std::visit([&](const auto& layer) { return lower(layer, info, out); }, info.layer.kind);
  }

 private:
  using Spec = kernels::OperationSpec;

  Spec lower(const Convolution& it, const LayerInfo& info, Extent out) {
    return kernels::ConvolutionSpec{
        it.channels, it.kernel, it.stride,       it.padding,
        out.height,  out.width, offset(info, 0), it.bias ? offset(info, 1) : kernels::kNone,
        it.groups};
  }
  Spec lower(const Linear& it, const LayerInfo& info, Extent) {
    return kernels::LinearSpec{it.features, offset(info, 0),
                               it.bias && !it.tied ? offset(info, 1) : kernels::kNone, info.input.tokens > 0};
  }
  Spec lower(const BatchNorm& it, const LayerInfo& info, Extent) {
    return kernels::BatchNormSpec{offset(info, 0),
                                  offset(info, 1),
                                  offset(info, 2),
                                  offset(info, 3),
                                  static_cast<float>(it.epsilon),
                                  static_cast<float>(it.momentum)};
  }
  Spec lower(const GroupNorm& it, const LayerInfo& info, Extent) {
    return kernels::GroupNormSpec{it.groups, offset(info, 0), offset(info, 1),
                                  static_cast<float>(it.epsilon)};
  }
  Spec lower(const LayerNorm& it, const LayerInfo& info, Extent) {
    return kernels::GroupNormSpec{1, offset(info, 0), it.bias ? offset(info, 1) : kernels::kNone,
                                  static_cast<float>(it.epsilon)};
  }
  Spec lower(const Dropout& it, const LayerInfo&, Extent) {
    return kernels::DropoutSpec{static_cast<float>(it.rate), random_.bits()};
  }
  Spec lower(const AveragePool& it, const LayerInfo&, Extent) { return kernels::AveragePoolSpec{it.size}; }
  Spec lower(const MaxPool& it, const LayerInfo&, Extent) { return kernels::MaxPoolSpec{it.size}; }
  Spec lower(const GlobalAveragePool&, const LayerInfo&, Extent) { return kernels::GlobalAveragePoolSpec{}; }
  Spec lower(const Relu&, const LayerInfo&, Extent) { return kernels::ReluSpec{}; }
  Spec lower(const Gelu& it, const LayerInfo&, Extent) { return kernels::GeluSpec{it.tanh}; }
  Spec lower(const Embedding& it, const LayerInfo& info, Extent) {
    return kernels::EmbeddingSpec{it.tokens, it.features, offset(info, 0), is_shared(info.tensors.at(0))};
  }
  Spec lower(const Position&, const LayerInfo& info, Extent) {
    return kernels::PositionSpec{info.input.tokens, offset(info, 0)};
  }
  Spec lower(const Attention& it, const LayerInfo& info, Extent) {
    return kernels::AttentionSpec{info.input.tokens,
                                  it.heads,
                                  it.groups == 0 ? it.heads : it.groups,
                                  it.rotary ? 10'000.0F : 0.0F,
                                  static_cast<float>(it.dropout),
                                  it.dropout > 0 ? random_.bits() : 0};
  }
  Spec lower(const Swiglu&, const LayerInfo&, Extent) { return kernels::SwigluSpec{}; }
  Spec lower(const RmsNorm& it, const LayerInfo& info, Extent) {
    return kernels::RmsNormSpec{offset(info, 0), static_cast<float>(it.epsilon)};
  }
  Spec lower(const TransformerBlock&, const LayerInfo&, Extent) {
    check_failed("a plan has the layers of a block", __FILE__, __LINE__);
  }
  Spec lower(const Residual&, const LayerInfo&, Extent) {
    check_failed("a sum is not an operation", __FILE__, __LINE__);
  }

  // Whether several layers have this tensor.
  bool is_shared(std::size_t tensor) const {
    return std::ranges::count_if(plan_.layers, [&](const LayerInfo& info) {
             return std::ranges::count(info.tensors, tensor) > 0;
           }) > 1;
  }

  std::size_t offset(const LayerInfo& info, std::size_t tensor) const {
    return plan_.layout.tensors()[info.tensors.at(tensor)].offset;
  }

  const Plan& plan_;
  Random random_;
};

}  // namespace

Lowered lower(const Plan& plan, std::uint64_t seed) {
  const std::size_t count = plan.layers.size();
  std::vector<int> readers(count, 0);
  const auto read = [&](int index) {
    if (index >= 0) ++readers[static_cast<std::size_t>(index)];
  };
  for (const LayerInfo& info : plan.layers) {
    read(info.from);
    read(info.other);
  }

  Extent extent = whole(plan.spec.input);
  std::vector<Extent> outputs(count);
  if (can_leave_out(plan)) {
    extent = {1, 1};
    for (std::size_t i = count; i-- > 0;) {
      outputs[i] = extent;
      extent = needed(plan.layers[i], extent);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) outputs[i] = whole(plan.layers[i].output);
  }

  Lowered lowered{extent.height, extent.width, {}};
  Lowering operation(plan, seed);
  for (std::size_t i = 0; i < count; ++i) {
    const LayerInfo& info = plan.layers[i];
    Node& node = lowered.nodes.emplace_back(Node{std::nullopt, info.from, info.other, readers[i]});
    if (info.other == LayerInfo::kNone) node.operation = operation(info, outputs[i]);
  }
  return lowered;
}

}  // namespace starling::models

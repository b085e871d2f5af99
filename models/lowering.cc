#include "models/lowering.h"

#include <algorithm>

#include "base/check.h"

namespace starling::models {
namespace {

struct Extent {
  int height, width;
};

// How much of a layer's input is read for `out` of its output.
Extent needed(const Layer& layer, const Shape& input, Extent out) {
  if (const auto* conv = std::get_if<Convolution>(&layer)) {
    const auto reach = [&](int outputs, int available) {
      return std::min((outputs - 1) * conv->stride + conv->kernel - conv->padding, available);
    };
    return {reach(out.height, input.height), reach(out.width, input.width)};
  }
  if (const auto* pool = std::get_if<AveragePool>(&layer))
    return {out.height * pool->size, out.width * pool->size};
  if (const auto* pool = std::get_if<MaxPool>(&layer))
    return {out.height * pool->size, out.width * pool->size};
  if (std::holds_alternative<Relu>(layer)) return out;
  return {input.height, input.width};
}

}  // namespace

Lowered lower(const Plan& plan) {
  const std::size_t count = plan.layers.size();
  std::vector<Extent> outputs(count);
  Extent extent{1, 1};
  for (std::size_t i = count; i-- > 0;) {
    outputs[i] = extent;
    extent = needed(plan.spec.layers[i], plan.layers[i].input, extent);
  }

  Lowered lowered{extent.height, extent.width, {}};
  std::size_t tensor = 0;  // the next of the layout: a weight, then its bias
  const auto next_offset = [&] { return plan.layout.tensors()[tensor++].offset; };
  for (std::size_t i = 0; i < count; ++i) {
    const Layer& layer = plan.spec.layers[i];
    if (const auto* conv = std::get_if<Convolution>(&layer)) {
      const std::size_t weight = next_offset(), bias = next_offset();
      lowered.operations.push_back(kernels::Convolution{conv->channels, conv->kernel, conv->stride,
                                                        conv->padding, outputs[i].height, outputs[i].width,
                                                        weight, bias});
    } else if (const auto* linear = std::get_if<Linear>(&layer)) {
      const std::size_t weight = next_offset(), bias = next_offset();
      lowered.operations.push_back(kernels::Linear{linear->features, weight, bias});
    } else if (const auto* average = std::get_if<AveragePool>(&layer)) {
      lowered.operations.push_back(kernels::AveragePool{average->size});
    } else if (const auto* max = std::get_if<MaxPool>(&layer)) {
      lowered.operations.push_back(kernels::MaxPool{max->size});
    } else {
      lowered.operations.push_back(kernels::Relu{});
    }
  }
  STARLING_CHECK(tensor == plan.layout.tensors().size());
  return lowered;
}

}  // namespace starling::models

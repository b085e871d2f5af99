#include "training/learning/export/onnx_layers.h"

#include <cmath>
#include <numbers>

namespace starling::training {
namespace {

using Value = OnnxGraph::Value;
using Extents = std::vector<std::int64_t>;

// A value within the graph is [n, channels, height, width], or [n, channels] if height and width are 1. As in
// the network itself, n counts samples, or the tokens of all sequences. kernels/operation.h defines what each
// layer computes.
class LayerWriter {
 public:
  LayerWriter(OnnxGraph& graph, const models::Plan& plan, std::span<const float> parameters, Value input)
      : graph_(graph), plan_(plan), parameters_(parameters), input_(std::move(input)) {
    if (plan.spec.input.tokens > 0) extents_ = graph.node("Shape", {input_});
  }

  Value run() {
    for (const models::LayerInfo& info : plan_.layers) {
      at_ = &info;
      graph_.begin(info.name);
      const Value x = info.from == models::LayerInfo::kInput ? input_ : values_[index(info.from)];
      values_.push_back(std::visit([&](const auto& layer) { return write(layer, x); }, info.layer.kind));
    }
    const Value logits = values_.back();
    return plan_.spec.input.tokens > 0 ? sequences(logits, plan_.classes) : logits;
  }

 private:
  static std::size_t index(int layer) { return static_cast<std::size_t>(layer); }

  Value write(const models::Convolution& layer, const Value& x) {
    std::vector<Value> inputs{image(x), parameter(0)};
    if (layer.bias) inputs.push_back(parameter(1));
    const std::int64_t k = layer.kernel, s = layer.stride, p = layer.padding;
    return shaped(graph_.node("Conv", inputs,
                              {{"kernel_shape", Extents{k, k}},
                               {"strides", Extents{s, s}},
                               {"pads", Extents{p, p, p, p}},
                               {"group", std::int64_t{layer.groups}}}));
  }
  Value write(const models::AveragePool& layer, const Value& x) { return pool("AveragePool", layer.size, x); }
  Value write(const models::MaxPool& layer, const Value& x) { return pool("MaxPool", layer.size, x); }
  Value write(const models::GlobalAveragePool&, const Value& x) {
    return shaped(graph_.node("GlobalAveragePool", {image(x)}));
  }
  Value write(const models::Linear& layer, const Value& x) {
    const Value flat =
        at_->input.height * at_->input.width == 1 ? x : reshape(x, {-1, at_->input.features()});
    const Value turned = graph_.node("Transpose", {parameter(0)}, {{"perm", Extents{1, 0}}});
    const Value product = graph_.node("MatMul", {flat, turned});
    return layer.tied || !layer.bias ? product : graph_.node("Add", {product, parameter(1)});
  }
  Value write(const models::Relu&, const Value& x) { return graph_.node("Relu", {x}); }
  Value write(const models::Gelu& layer, const Value& x) {
    return graph_.node("Mul", {times(x, 0.5), plus(layer.tanh ? tanh_of(x) : erf_of(x), 1)});
  }
  Value write(const models::BatchNorm& layer, const Value& x) {
    const std::span<const float> variances = values_of(3);
    std::vector<float> deviations;
    for (const float v : variances)
      deviations.push_back(static_cast<float>(std::sqrt(std::max<double>(v, 0) + layer.epsilon)));
    const Value deviation = graph_.tensor(at_->name + ".deviation", deviations, per_channel());
    const Value centered = graph_.node("Sub", {x, channels(2)});
    return scaled(graph_.node("Div", {centered, deviation}), true);
  }
  Value write(const models::GroupNorm& layer, const Value& x) {
    return scaled(normalized(x, layer.groups, layer.epsilon), true);
  }
  Value write(const models::LayerNorm& layer, const Value& x) {
    return scaled(normalized(x, 1, layer.epsilon), layer.bias);
  }
  Value write(const models::RmsNorm& layer, const Value& x) {
    const Value square = mean(graph_.node("Mul", {x, x}), 1);
    return scaled(graph_.node("Div", {x, root(square, layer.epsilon)}), false);
  }
  Value write(const models::Dropout&, const Value& x) { return x; }
  Value write(const models::Residual&, const Value& x) {  // the sum at its end
    return graph_.node("Add",
                       {x, at_->other == models::LayerInfo::kInput ? input_ : values_[index(at_->other)]});
  }
  Value write(const models::Embedding&, const Value& x) {
    return graph_.node("Gather", {parameter(0), reshape(x, {-1})});
  }
  Value write(const models::Position&, const Value& x) {
    const int features = at_->input.features();
    const Value rows = up_to_length(parameter(0));
    return reshape(graph_.node("Add", {sequences(x, features), rows}), {-1, features});
  }
  Value write(const models::Swiglu&, const Value& x) {
    const auto half = graph_.nodes("Split", {x}, 2, {{"axis", std::int64_t{1}}});
    return graph_.node("Mul", {graph_.node("Mul", {half[0], graph_.node("Sigmoid", {half[0]})}), half[1]});
  }
  Value write(const models::Attention& layer, const Value& x) {
    const std::int64_t groups = layer.groups == 0 ? layer.heads : layer.groups;
    const std::int64_t size = at_->output.features() / layer.heads;
    const Value parts = graph_.whole({layer.heads * size, groups * size, groups * size});
    const auto qkv =
        graph_.nodes("Split", {sequences(x, at_->input.features()), parts}, 3, {{"axis", std::int64_t{2}}});
    const std::int64_t per_group = layer.heads / groups;
    Value q = heads(qkv[0], groups, per_group, size), k = heads(qkv[1], groups, 1, size);
    if (layer.rotary) {
      q = rotated(q, size);
      k = rotated(k, size);
    }
    const Value turned = graph_.node("Transpose", {k}, {{"perm", Extents{0, 1, 2, 4, 3}}});
    const Value scores = times(graph_.node("MatMul", {q, turned}), 1 / std::sqrt(static_cast<double>(size)));
    const Value weights =
        graph_.node("Softmax", {graph_.node("Where", {causal(), scores, graph_.number(-INFINITY)})},
                    {{"axis", std::int64_t{-1}}});
    const Value mixed = graph_.node("MatMul", {weights, heads(qkv[2], groups, 1, size)});
    const Value back = graph_.node("Transpose", {mixed}, {{"perm", Extents{0, 3, 1, 2, 4}}});
    return reshape(back, {-1, layer.heads * size});
  }
  Value write(const models::TransformerBlock&, const Value& x) { return x; }  // not in a plan

  // [batch, length, groups x per_group x size] to [batch, groups, per_group, length, size].
  Value heads(const Value& x, std::int64_t groups, std::int64_t per_group, std::int64_t size) {
    const Value parts = reshape(x, {0, 0, groups, per_group, size});
    return graph_.node("Transpose", {parts}, {{"perm", Extents{0, 2, 3, 1, 4}}});
  }

  // Of every head, the pair (f, f + size/2) at position i, by the angle i 10,000^(-2f/size).
  Value rotated(const Value& x, std::int64_t size) {
    constexpr double kBase = 10'000;
    std::vector<float> cosines, sines;
    for (int i = 0; i < at_->input.tokens; ++i) {
      for (std::int64_t f = 0; f < size / 2; ++f) {
        const double angle = i * std::pow(kBase, -2.0 * static_cast<double>(f) / static_cast<double>(size));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    const Extents extents{at_->input.tokens, size / 2};
    const std::string suffix = "." + std::to_string(size);
    const Value c = up_to_length(graph_.tensor("rotary.cos" + suffix, cosines, extents));
    const Value s = up_to_length(graph_.tensor("rotary.sin" + suffix, sines, extents));
    const auto half = graph_.nodes("Split", {x}, 2, {{"axis", std::int64_t{-1}}});
    const auto product = [&](const Value& a, const Value& b) { return graph_.node("Mul", {a, b}); };
    const Value first = graph_.node("Sub", {product(half[0], c), product(half[1], s)});
    const Value second = graph_.node("Add", {product(half[0], s), product(half[1], c)});
    return graph_.node("Concat", {first, second}, {{"axis", std::int64_t{-1}}});
  }

  // [length, length]: whether a position reads another one.
  Value causal() {
    const Value count = graph_.node("Gather", {extents_, graph_.whole_number(1)});
    const Value all = graph_.node("Range", {graph_.whole_number(0), count, graph_.whole_number(1)});
    return graph_.node("GreaterOrEqual", {reshape(all, {-1, 1}), all});
  }
  // The first rows of a table, one for each token of a sequence.
  Value up_to_length(const Value& table) {
    const Value count = graph_.node("Gather", {extents_, graph_.whole({1})});
    return graph_.node("Slice", {table, graph_.whole({0}), count, graph_.whole({0})});
  }
  // [n, features] to [batch, length, features].
  Value sequences(const Value& x, std::int64_t features) {
    const Value extents =
        graph_.node("Concat", {extents_, graph_.whole({features})}, {{"axis", std::int64_t{0}}});
    return graph_.node("Reshape", {x, extents});
  }

  Value pool(const char* operation, std::int64_t size, const Value& x) {
    return shaped(graph_.node(operation, {image(x)},
                              {{"kernel_shape", Extents{size, size}}, {"strides", Extents{size, size}}}));
  }
  Value erf_of(const Value& x) { return graph_.node("Erf", {times(x, 1 / std::numbers::sqrt2)}); }
  Value tanh_of(const Value& x) {
    const Value cube = graph_.node("Mul", {graph_.node("Mul", {x, x}), x});
    const Value sum = graph_.node("Add", {x, times(cube, 0.044715)});
    return graph_.node("Tanh", {times(sum, std::numbers::sqrt2 * std::numbers::inv_sqrtpi)});
  }

  // Each group's values minus their mean, divided by their deviation.
  Value normalized(const Value& x, std::int64_t groups, double epsilon) {
    const Value parts = reshape(x, {0, groups, -1});
    const Value centered = graph_.node("Sub", {parts, mean(parts, 2)});
    const Value variance = mean(graph_.node("Mul", {centered, centered}), 2);
    return shaped(graph_.node("Div", {centered, root(variance, epsilon)}));
  }
  Value mean(const Value& x, std::int64_t axis) {
    return graph_.node("ReduceMean", {x}, {{"axes", Extents{axis}}, {"keepdims", std::int64_t{1}}});
  }
  Value root(const Value& x, double epsilon) { return graph_.node("Sqrt", {plus(x, epsilon)}); }
  // Times the layer's scale, plus its shift.
  Value scaled(const Value& x, bool shift) {
    const Value y = graph_.node("Mul", {x, channels(0)});
    return shift ? graph_.node("Add", {y, channels(1)}) : y;
  }

  Value times(const Value& x, double factor) { return graph_.node("Mul", {x, graph_.number(factor)}); }
  Value plus(const Value& x, double term) { return graph_.node("Add", {x, graph_.number(term)}); }
  Value reshape(const Value& x, const Extents& extents) {
    return graph_.node("Reshape", {x, graph_.whole(extents)});
  }
  // With four extents, for a layer that reads images.
  Value image(const Value& x) {
    const models::Shape in = at_->input;
    return in.height * in.width == 1 ? reshape(x, {-1, in.channels, 1, 1}) : x;
  }
  // With the extents of the layer's output.
  Value shaped(const Value& y) {
    const models::Shape out = at_->output;
    if (out.height * out.width == 1) return reshape(y, {-1, out.channels});
    return reshape(y, {-1, out.channels, out.height, out.width});
  }

  std::span<const float> values_of(std::size_t number) const {
    const models::Tensor& tensor = plan_.layout.tensors()[at_->tensors[number]];
    return parameters_.subspan(tensor.offset, tensor.size);
  }
  // A tensor of the layer, under its name in the network.
  Value parameter(std::size_t number) {
    const models::Tensor& tensor = plan_.layout.tensors()[at_->tensors[number]];
    return graph_.tensor(tensor.name, values_of(number), tensor.shape);
  }
  // The same for a tensor with a value for each channel.
  Value channels(std::size_t number) {
    const models::Tensor& tensor = plan_.layout.tensors()[at_->tensors[number]];
    return graph_.tensor(tensor.name, values_of(number), per_channel());
  }
  Extents per_channel() const {
    const models::Shape in = at_->input;
    return in.height * in.width == 1 ? Extents{in.channels} : Extents{in.channels, 1, 1};
  }

  OnnxGraph& graph_;
  const models::Plan& plan_;
  std::span<const float> parameters_;
  Value input_, extents_;  // of a text: [batch, length]
  const models::LayerInfo* at_ = nullptr;
  std::vector<Value> values_;  // of the layers so far
};

}  // namespace

OnnxGraph::Value write_layers(OnnxGraph& graph, const models::Plan& plan, std::span<const float> parameters,
                              const OnnxGraph::Value& input) {
  return LayerWriter(graph, plan, parameters, input).run();
}

}  // namespace starling::training

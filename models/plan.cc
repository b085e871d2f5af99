#include "models/spec.h"

#include <cmath>
#include <map>

#include "models/layer_types.h"

namespace starling::models {
namespace {

// Limits of a spec, so that no product of extents overflows.
constexpr int kExtentMax = 1 << 20;
constexpr std::int64_t kTensorMax = (std::int64_t{1} << 31) - 1;

std::string text(Shape shape) {
  if (shape.tokens > 0) {
    return std::to_string(shape.tokens) + " tokens" +
           (shape.features() > 1 ? " of " + std::to_string(shape.features()) + " features" : "");
  }
  return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

bool in_range(int value, int low) { return value >= low && value <= kExtentMax; }

// The end of a chain of layers, which the next one reads.
struct End {
  int layer;  // its index in the plan, or LayerInfo::kInput
  Shape shape;
};

// Plans one layer after another. Each `plan` overload checks its layer against its input and returns an empty
// string or the error.
class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), end_{LayerInfo::kInput, plan.spec.input} {}

  std::string add(const std::vector<Layer>& layers) {
    for (const Layer& layer : layers) {
      std::string wrong = std::visit([&](const auto& it) { return plan(it); }, layer.kind);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  // After the last layer: appends the statistics to the layout.
  void finish() {
    for (Statistic& statistic : statistics_) {
      plan_.layers[statistic.layer].tensors.push_back(plan_.layout.tensors().size());
      plan_.layout.append(std::move(statistic.tensor));
    }
  }

  Shape shape() const { return end_.shape; }

 private:
  std::string plan(const Convolution& layer) {
    LayerInfo& info = begin(layer);
    const Shape in = info.input;
    if (!in_range(layer.channels, 1) || !in_range(layer.kernel, 1) || !in_range(layer.stride, 1) ||
        !in_range(layer.padding, 0) || !in_range(layer.groups, 1)) {
      return info.name +
             " needs channels, kernel, stride and groups of at least 1 and padding of at least 0, at most " +
             std::to_string(kExtentMax) + " each";
    }
    if (layer.padding >= layer.kernel) {
      return info.name + " has padding " + std::to_string(layer.padding) +
             ", which must be less than its kernel " + std::to_string(layer.kernel);
    }
    if (in.channels % layer.groups != 0 || layer.channels % layer.groups != 0) {
      return info.name + " has " + std::to_string(layer.groups) + " groups, which must divide its " +
             std::to_string(in.channels) + " channels in and its " + std::to_string(layer.channels) + " out";
    }
    const int height = in.height + 2 * layer.padding - layer.kernel;
    const int width = in.width + 2 * layer.padding - layer.kernel;
    if (height < 0 || width < 0) {
      return info.name + " has a kernel of " + std::to_string(layer.kernel) + ", larger than its input " +
             text(in) + " with padding " + std::to_string(layer.padding);
    }
    const Shape output{layer.channels, height / layer.stride + 1, width / layer.stride + 1};
    const int channels = in.channels / layer.groups;
    if (std::string wrong = weights(layer.channels, {channels, layer.kernel, layer.kernel}, layer.bias);
        !wrong.empty()) {
      return wrong;
    }
    const double fan_in = static_cast<double>(layer.kernel) * layer.kernel * channels;
    return end(output, 2.0 * fan_in * output.channels * output.height * output.width);
  }

  std::string plan(const AveragePool& layer) { return pool(layer); }
  std::string plan(const MaxPool& layer) { return pool(layer); }

  template <class T>
  std::string pool(const T& layer) {
    LayerInfo& info = begin(layer);
    const int size = layer.size;
    if (!in_range(size, 1)) return info.name + " needs a window of at least 1";
    if (size > info.input.height || size > info.input.width) {
      return info.name + " has a window of " + std::to_string(size) + ", larger than its input " +
             text(info.input);
    }
    const Shape output{info.input.channels, info.input.height / size, info.input.width / size};
    return end(output, static_cast<double>(size) * size * output.channels * output.height * output.width);
  }

  std::string plan(const GlobalAveragePool& layer) {
    const Shape in = begin(layer).input;
    return end({in.channels, 1, 1}, in.size());
  }

  std::string plan(const Linear& layer) {
    LayerInfo& info = begin(layer);
    if (!in_range(layer.features, 1)) {
      return info.name + " needs from 1 to " + std::to_string(kExtentMax) + " features";
    }
    const int in = info.input.features();
    if (layer.tied) {
      if (!embedding_) return info.name + " is tied, but no embedding comes before it";
      const Tensor& shared = plan_.layout.tensors()[*embedding_];
      if (shared.shape != std::vector<std::int64_t>{layer.features, in}) {
        return info.name + " is tied, so its " + std::to_string(in) + " inputs and " +
               std::to_string(layer.features) + " features must be the embedding's " +
               std::to_string(shared.shape[1]) + " features and " + std::to_string(shared.shape[0]) +
               " tokens";
      }
      info.tensors.push_back(*embedding_);
    } else {
      if (!(layer.deviation >= 0)) return info.name + " needs a deviation of at least 0";
      if (std::string wrong = weights(layer.features, {in}, layer.bias, layer.deviation); !wrong.empty())
        return wrong;
    }
    return end_tokens(layer.features, 2.0 * in * layer.features);
  }

  std::string plan(const Embedding& layer) {
    LayerInfo& info = begin(layer);
    if (!in_range(layer.features, 1) || !in_range(layer.tokens, 1) || !(layer.deviation >= 0)) {
      return info.name + " needs features and tokens from 1 to " + std::to_string(kExtentMax) +
             " and a deviation of at least 0";
    }
    if (info.from != LayerInfo::kInput || info.input.tokens == 0 || info.input.features() != 1)
      return info.name + " must be the first layer of a network for text";
    if (layer.context != info.input.tokens)
      return info.name + " has a context of " + std::to_string(layer.context) + ", but the samples have " +
             text(info.input);
    if (std::int64_t{layer.tokens} * layer.features > kTensorMax)
      return info.name + " would have more than 2^31 weights";
    embedding_ = plan_.layout.tensors().size();
    append(info, {info.name + ".weight",
                  {layer.tokens, layer.features},
                  0,
                  0,
                  true,
                  Tensor::Start::normal,
                  layer.deviation});
    return end_tokens(layer.features, 0);
  }

  std::string plan(const Position& layer) {
    LayerInfo& info = begin(layer);
    if (std::string wrong = needs_tokens(); !wrong.empty()) return wrong;
    const int context = info.input.tokens, features = info.input.features();
    append(info,
           {info.name + ".weight", {context, features}, 0, 0, true, Tensor::Start::normal, layer.deviation});
    return end_tokens(features, features);
  }

  std::string plan(const Attention& layer) {
    LayerInfo& info = begin(layer);
    if (std::string wrong = needs_tokens(); !wrong.empty()) return wrong;
    const int groups = layer.groups == 0 ? layer.heads : layer.groups;
    if (!in_range(layer.heads, 1) || !in_range(groups, 1) || layer.heads % groups != 0) {
      return info.name + " has " + std::to_string(groups) + " groups, which must divide its " +
             std::to_string(layer.heads) + " heads";
    }
    if (!(layer.dropout >= 0 && layer.dropout < 1))
      return info.name + " needs a dropout of at least 0, below 1";
    const int features = info.input.features(), slices = layer.heads + 2 * groups;
    const int size = features / slices;
    if (features % slices != 0 || (layer.rotary && size % 2 != 0)) {
      return info.name + " reads " + std::to_string(features) +
             " features, which must be a multiple of the " +
             std::to_string(layer.rotary ? 2 * slices : slices) + " for its " + std::to_string(layer.heads) +
             " queries, " + std::to_string(groups) + " keys and " + std::to_string(groups) + " values" +
             (layer.rotary ? " in pairs" : "");
    }
    // Two products for each query and the keys up to it.
    return end_tokens(layer.heads * size, 2.0 * layer.heads * size * (info.input.tokens + 1));
  }

  std::string plan(const Swiglu& layer) {
    LayerInfo& info = begin(layer);
    const int features = info.input.features();
    if (features % 2 != 0 || info.input.height * info.input.width != 1)
      return info.name + " reads " + text(info.input) + ", but needs an even number of features";
    return end_tokens(features / 2, 5.0 * features / 2);
  }

  std::string plan(const RmsNorm& layer) {
    LayerInfo& info = begin(layer);
    if (info.input.height * info.input.width != 1)
      return info.name + " reads images of " + text(info.input) + ", but normalizes vectors";
    if (std::string wrong = normalization(layer.epsilon, false); !wrong.empty()) return wrong;
    return end(info.input, 4.0 * info.input.size());
  }

  // The block's layers, which are checked one by one.
  std::string plan(const TransformerBlock& block) {
    const std::string name = LayerType<TransformerBlock>::kPrefix +
                             std::to_string(++counts_[LayerType<TransformerBlock>::kPrefix]);
    const int features = end_.shape.features();
    if (end_.shape.tokens == 0) return name + " needs a sequence: an embedding must come before it";
    const int groups = block.groups == 0 ? block.heads : block.groups;
    if (!in_range(block.heads, 1) || !in_range(groups, 1) || features % block.heads != 0 ||
        block.heads % groups != 0 || !in_range(block.hidden, 0)) {
      return name + " has " + std::to_string(block.heads) + " heads and " + std::to_string(groups) +
             " groups; the heads must divide its " + std::to_string(features) +
             " features, and the groups the heads";
    }
    if (std::string wrong = add(layers_of(block, features)); !wrong.empty())
      return wrong + " (in " + name + ")";
    return {};
  }

  static std::vector<Layer> layers_of(const TransformerBlock& block, int features) {
    const int groups = block.groups == 0 ? block.heads : block.groups;
    const int hidden = block.hidden == 0 ? 4 * features : block.hidden;
    const double last = block.out_deviation > 0 ? block.out_deviation : block.deviation;
    const auto linear = [&](int out, double deviation) { return Linear{out, block.bias, false, deviation}; };
    const auto norm = [&]() -> Layer {
      return block.rms ? Layer(RmsNorm{}) : Layer(LayerNorm{1e-5, block.bias});
    };
    std::vector<Layer> attention{
        norm(), linear(features / block.heads * (block.heads + 2 * groups), block.deviation),
        Attention{block.heads, groups, block.rotary, block.dropout}, linear(features, last)};
    std::vector<Layer> perceptron{norm(), linear(block.swiglu ? 2 * hidden : hidden, block.deviation),
                                  block.swiglu ? Layer(Swiglu{}) : Layer(Gelu{block.tanh}),
                                  linear(features, last)};
    if (block.dropout > 0) {
      attention.push_back(Dropout{block.dropout});
      perceptron.push_back(Dropout{block.dropout});
    }
    return {Residual(std::move(attention)), Residual(std::move(perceptron))};
  }

  std::string needs_tokens() const {
    const LayerInfo& info = plan_.layers.back();
    if (info.input.tokens > 0 && info.input.height * info.input.width == 1 && embedding_) return {};
    return info.name + " needs a sequence of vectors: an embedding must come before it";
  }

  std::string plan(const Relu& layer) { return elementwise(layer, 1); }
  std::string plan(const Gelu& layer) { return elementwise(layer, 8); }

  std::string plan(const Dropout& layer) {
    if (!(layer.rate >= 0 && layer.rate < 1)) {
      return begin(layer).name + " needs a rate of at least 0 and less than 1";
    }
    return elementwise(layer, 1);
  }

  template <class T>
  std::string elementwise(const T& layer, int flops) {
    const Shape in = begin(layer).input;
    return end(in, static_cast<double>(flops) * in.size());
  }

  std::string plan(const BatchNorm& layer) {
    LayerInfo& info = begin(layer);
    if (std::string wrong = normalization(layer.epsilon); !wrong.empty()) return wrong;
    if (!(layer.momentum > 0 && layer.momentum <= 1))
      return info.name + " needs a momentum above 0 and at most 1";
    const std::size_t index = plan_.layers.size() - 1;
    statistics_.push_back({index, statistic(info, ".running_mean", 0)});
    statistics_.push_back({index, statistic(info, ".running_var", 1)});
    return end(info.input, 4.0 * info.input.size());
  }

  std::string plan(const GroupNorm& layer) {
    LayerInfo& info = begin(layer);
    if (!in_range(layer.groups, 1) || info.input.channels % layer.groups != 0) {
      return info.name + " has " + std::to_string(layer.groups) + " groups, which must divide its " +
             std::to_string(info.input.channels) + " channels";
    }
    if (std::string wrong = normalization(layer.epsilon); !wrong.empty()) return wrong;
    return end(info.input, 4.0 * info.input.size());
  }

  std::string plan(const LayerNorm& layer) {
    const Shape in = begin(layer).input;
    if (std::string wrong = normalization(layer.epsilon, layer.bias); !wrong.empty()) return wrong;
    return end(in, 4.0 * in.size());
  }

  std::string plan(const Residual& block) {
    const std::string name = LayerType<Residual>::kPrefix + std::to_string(++blocks_);
    if (block.layers.empty()) return name + " is a residual block without layers";
    const End entrance = end_;
    if (std::string wrong = add(block.layers); !wrong.empty()) return wrong + inside(name);
    const End body = end_;
    end_ = entrance;
    if (std::string wrong = add(block.shortcut); !wrong.empty()) return wrong + inside(name);
    if (body.shape != end_.shape) {
      return name + " cannot add " + text(body.shape) + ", which its layers yield, and " + text(end_.shape) +
             (block.shortcut.empty() ? ", its input: add a shortcut that changes the shape"
                                     : ", which its shortcut yields");
    }
    const int shortcut = end_.layer;
    end_ = body;
    LayerInfo& info = append_layer(name, "sum", Residual{});
    info.other = shortcut;
    return end(info.input, info.input.size());
  }

  static std::string inside(const std::string& block) { return " (in the block that ends in " + block + ")"; }

  template <class T>
  LayerInfo& begin(const T& layer) {
    const std::string prefix = LayerType<T>::kPrefix;
    return append_layer(prefix + std::to_string(++counts_[prefix]), LayerType<T>::kName, layer);
  }

  LayerInfo& append_layer(std::string name, const char* kind, Layer layer) {
    return plan_.layers.emplace_back(LayerInfo{std::move(name), kind, std::move(layer), end_.layer,
                                               LayerInfo::kNone, end_.shape, end_.shape});
  }

  // Appends "<name>.weight" [out, in...] and "<name>.bias" [out], initially uniform in +-1/sqrt(fan-in) as in
  // PyTorch, or with a deviation normal weights and biases of 0.
  std::string weights(int out, std::vector<std::int64_t> in, bool bias, double deviation = 0) {
    LayerInfo& info = plan_.layers.back();
    std::int64_t size = out;
    for (const std::int64_t extent : in) {
      if (extent > kTensorMax / size) return info.name + " would have more than 2^31 weights";
      size *= extent;
    }
    std::vector<std::int64_t> shape{out};
    shape.insert(shape.end(), in.begin(), in.end());
    const double bound = 1 / std::sqrt(static_cast<double>(size) / out);
    const bool normal = deviation > 0;
    append(info, {info.name + ".weight", std::move(shape), 0, 0, true,
                  normal ? Tensor::Start::normal : Tensor::Start::uniform, normal ? deviation : bound});
    if (!bias) return {};
    append(info, {info.name + ".bias",
                  {out},
                  0,
                  0,
                  true,
                  normal ? Tensor::Start::constant : Tensor::Start::uniform,
                  normal ? 0 : bound});
    return {};
  }

  // Appends scales of 1 and shifts of 0, one for each channel.
  std::string normalization(double epsilon, bool shifts = true) {
    LayerInfo& info = plan_.layers.back();
    if (!(epsilon > 0 && epsilon < 1)) return info.name + " needs an epsilon above 0 and below 1";
    const std::int64_t channels = info.input.channels;
    append(info, {info.name + ".weight", {channels}, 0, 0, true, Tensor::Start::constant, 1});
    if (shifts) append(info, {info.name + ".bias", {channels}, 0, 0, true, Tensor::Start::constant, 0});
    return {};
  }

  void append(LayerInfo& info, Tensor tensor) {
    info.tensors.push_back(plan_.layout.tensors().size());
    info.parameters += plan_.layout.append(std::move(tensor)).size;
  }

  static Tensor statistic(const LayerInfo& info, const char* suffix, double start) {
    return {info.name + suffix, {info.input.channels}, 0, 0, false, Tensor::Start::constant, start};
  }

  // Vectors of this many features, as many as the layer reads; flops for each.
  std::string end_tokens(int features, double flops) {
    const Shape in = plan_.layers.back().input;
    return end({features, 1, 1, in.tokens}, flops * in.length());
  }

  std::string end(Shape output, double flops) {
    LayerInfo& info = plan_.layers.back();
    output.tokens = info.input.tokens;
    const std::int64_t plane = std::int64_t{output.height} * output.width;
    if (plane > kTensorMax / output.channels / output.length())
      return info.name + " would yield more than 2^31 values per sample";
    info.output = output;
    info.flops_forward = flops;
    end_ = {static_cast<int>(plan_.layers.size()) - 1, output};
    return {};
  }

  struct Statistic {
    std::size_t layer;
    Tensor tensor;
  };

  Plan& plan_;
  End end_;
  std::map<std::string, int> counts_;
  int blocks_ = 0;
  std::optional<std::size_t> embedding_;  // the index of its tensor
  std::vector<Statistic> statistics_;
};

}  // namespace

std::optional<RunningStatistics> running_statistics(const LayerInfo& layer) {
  const auto* norm = std::get_if<BatchNorm>(&layer.layer.kind);
  if (norm == nullptr) return std::nullopt;
  return RunningStatistics{layer.tensors[2], layer.tensors[3], norm->momentum};  // after scale and shift
}

Result<Plan> make_plan(Spec spec) {
  const std::string where = "model \"" + spec.name + "\": ";
  const Shape input = spec.input;
  if (!in_range(input.channels, 1) || !in_range(input.height, 1) || !in_range(input.width, 1) ||
      std::int64_t{input.height} * input.width > kTensorMax / input.channels) {
    return Error{where + "the input " + text(input) +
                 " must have extents of at least 1 and fewer than 2^31 values"};
  }
  if (spec.layers.empty()) return Error{where + "it has no layers; the last one must yield the logits"};
  if (input.tokens > 0 && context_of(spec.layers) == 0)
    return Error{where + "it reads text, so its first layer must be an embedding"};
  Plan plan{std::move(spec), {}, {}, 0};
  Planner planner(plan);
  if (std::string wrong = planner.add(plan.spec.layers); !wrong.empty()) return Error{where + wrong};
  planner.finish();
  const Shape logits = planner.shape();
  if (logits.height != 1 || logits.width != 1 || logits.channels < 2) {
    return Error{where + plan.layers.back().name + " yields " + text(logits) +
                 ", but the last layer must yield one logit for each of at least 2 classes"};
  }
  if (plan.layout.trained_size() == 0)
    return Error{where + "no layer has parameters, so there is nothing to train"};
  plan.classes = logits.channels;
  return plan;
}

}  // namespace starling::models

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
    const int in = info.input.size();
    if (std::string wrong = weights(layer.features, {in}, true); !wrong.empty()) return wrong;
    return end({layer.features, 1, 1}, 2.0 * in * layer.features);
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
    if (std::string wrong = normalization(layer.epsilon); !wrong.empty()) return wrong;
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
  // PyTorch.
  std::string weights(int out, std::vector<std::int64_t> in, bool bias) {
    LayerInfo& info = plan_.layers.back();
    std::int64_t size = out;
    for (const std::int64_t extent : in) {
      if (extent > kTensorMax / size) return info.name + " would have more than 2^31 weights";
      size *= extent;
    }
    std::vector<std::int64_t> shape{out};
    shape.insert(shape.end(), in.begin(), in.end());
    const double bound = 1 / std::sqrt(static_cast<double>(size) / out);
    append(info, {info.name + ".weight", std::move(shape), 0, 0, true, Tensor::Start::uniform, bound});
    if (bias) append(info, {info.name + ".bias", {out}, 0, 0, true, Tensor::Start::uniform, bound});
    return {};
  }

  // Appends scales of 1 and shifts of 0, one for each channel.
  std::string normalization(double epsilon) {
    LayerInfo& info = plan_.layers.back();
    if (!(epsilon > 0 && epsilon < 1)) return info.name + " needs an epsilon above 0 and below 1";
    const std::int64_t channels = info.input.channels;
    append(info, {info.name + ".weight", {channels}, 0, 0, true, Tensor::Start::constant, 1});
    append(info, {info.name + ".bias", {channels}, 0, 0, true, Tensor::Start::constant, 0});
    return {};
  }

  void append(LayerInfo& info, Tensor tensor) {
    info.tensors.push_back(plan_.layout.tensors().size());
    info.parameters += plan_.layout.append(std::move(tensor)).size;
  }

  static Tensor statistic(const LayerInfo& info, const char* suffix, double start) {
    return {info.name + suffix, {info.input.channels}, 0, 0, false, Tensor::Start::constant, start};
  }

  std::string end(Shape output, double flops) {
    LayerInfo& info = plan_.layers.back();
    const std::int64_t plane = std::int64_t{output.height} * output.width;
    if (plane > kTensorMax / output.channels)
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
  std::vector<Statistic> statistics_;
};

}  // namespace

Result<Plan> make_plan(Spec spec) {
  const std::string where = "model \"" + spec.name + "\": ";
  const Shape input = spec.input;
  if (!in_range(input.channels, 1) || !in_range(input.height, 1) || !in_range(input.width, 1) ||
      std::int64_t{input.height} * input.width > kTensorMax / input.channels) {
    return Error{where + "the input " + text(input) +
                 " must have extents of at least 1 and fewer than 2^31 values"};
  }
  if (spec.layers.empty()) return Error{where + "it has no layers; the last one must yield the logits"};
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

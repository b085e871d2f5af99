#include "models/spec.h"

#include <limits>
#include <map>

namespace starling::models {
namespace {

// Bounds on what a spec may ask for, so that no product of extents below overflows and no size is absurd.
constexpr int kExtentMax = 1 << 20;
constexpr std::int64_t kTensorMax = (std::int64_t{1} << 31) - 1;

std::string text(Shape shape) {
  return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

bool in_range(int value, int low) {
  return value >= low && value <= kExtentMax;
}

// Plans one layer after another; each `plan` overload checks its layer against the shape so far and returns
// an empty string, or what is wrong.
class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), shape_(plan.spec.input) {}

  std::string add(const Layer& layer) {
    return std::visit([this](const auto& it) { return plan(it); }, layer);
  }
  Shape shape() const { return shape_; }

 private:
  std::string plan(const Convolution& layer) {
    LayerInfo& info = begin("conv", "convolution");
    if (!in_range(layer.channels, 1) || !in_range(layer.kernel, 1) || !in_range(layer.stride, 1) ||
        !in_range(layer.padding, 0)) {
      return info.name +
             " needs channels, a kernel and a stride of at least 1 and a padding of at least 0, at most " +
             std::to_string(kExtentMax) + " each";
    }
    if (layer.padding >= layer.kernel) {
      return info.name + " has padding " + std::to_string(layer.padding) +
             ", which must be less than its kernel " + std::to_string(layer.kernel);
    }
    const int height = shape_.height + 2 * layer.padding - layer.kernel;
    const int width = shape_.width + 2 * layer.padding - layer.kernel;
    if (height < 0 || width < 0) {
      return info.name + " has a kernel of " + std::to_string(layer.kernel) + ", larger than its input " +
             text(shape_) + " with padding " + std::to_string(layer.padding);
    }
    const Shape output{layer.channels, height / layer.stride + 1, width / layer.stride + 1};
    const std::int64_t window = std::int64_t{layer.kernel} * layer.kernel;
    if (std::string wrong = weights(layer.channels, {shape_.channels, layer.kernel, layer.kernel});
        !wrong.empty()) {
      return wrong;
    }
    const double fan_in = static_cast<double>(window) * shape_.channels;
    return end(output, 2.0 * fan_in * output.channels * output.height * output.width);
  }

  std::string plan(const AveragePool& layer) { return pool("average pool", layer.size); }
  std::string plan(const MaxPool& layer) { return pool("max pool", layer.size); }

  std::string pool(const char* kind, int size) {
    LayerInfo& info = begin("pool", kind);
    if (!in_range(size, 1)) return info.name + " needs a window of at least 1";
    if (size > shape_.height || size > shape_.width) {
      return info.name + " has a window of " + std::to_string(size) + ", larger than its input " +
             text(shape_);
    }
    const Shape output{shape_.channels, shape_.height / size, shape_.width / size};
    return end(output, static_cast<double>(size) * size * output.channels * output.height * output.width);
  }

  std::string plan(const Linear& layer) {
    LayerInfo& info = begin("fc", "linear");
    if (!in_range(layer.features, 1)) {
      return info.name + " needs from 1 to " + std::to_string(kExtentMax) + " features";
    }
    if (std::string wrong = weights(layer.features, {shape_.size()}); !wrong.empty()) return wrong;
    return end({layer.features, 1, 1}, 2.0 * shape_.size() * layer.features);
  }

  std::string plan(const Relu&) {
    begin("relu", "relu");
    return end(shape_, shape_.size());
  }

  LayerInfo& begin(const std::string& prefix, const char* kind) {
    LayerInfo& info = plan_.layers.emplace_back();
    info.name = prefix + std::to_string(++counts_[prefix]);
    info.kind = kind;
    info.input = shape_;
    return info;
  }

  // Appends "<name>.weight" [out, in...] and "<name>.bias" [out].
  std::string weights(int out, std::vector<std::int64_t> in) {
    LayerInfo& info = plan_.layers.back();
    std::int64_t size = out;
    for (const std::int64_t extent : in) {
      if (extent > kTensorMax / size) return info.name + " would have more than 2^31 weights";
      size *= extent;
    }
    std::vector<std::int64_t> shape{out};
    shape.insert(shape.end(), in.begin(), in.end());
    info.parameters = plan_.layout.append(info.name + ".weight", std::move(shape)).size;
    info.parameters += plan_.layout.append(info.name + ".bias", {out}).size;
    return {};
  }

  std::string end(Shape output, double flops) {
    LayerInfo& info = plan_.layers.back();
    const std::int64_t plane = std::int64_t{output.height} * output.width;
    if (plane > kTensorMax / output.channels)
      return info.name + " would yield more than 2^31 values a sample";
    info.output = shape_ = output;
    info.flops_forward = flops;
    return {};
  }

  Plan& plan_;
  Shape shape_;
  std::map<std::string, int> counts_;
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
  for (const Layer& layer : plan.spec.layers) {
    if (std::string wrong = planner.add(layer); !wrong.empty()) return Error{where + wrong};
  }
  const Shape logits = planner.shape();
  if (logits.height != 1 || logits.width != 1 || logits.channels < 2) {
    return Error{where + plan.layers.back().name + " yields " + text(logits) +
                 ", but the last layer must yield one logit for each of at least 2 classes"};
  }
  if (plan.layout.tensors().empty())
    return Error{where + "no layer has parameters, so there is nothing to train"};
  plan.classes = logits.channels;
  return plan;
}

}  // namespace starling::models

// What a network is, as a plain value: an input shape and a list of layers, in which a residual block is one
// layer with lists of its own. Shapes are inferred, and a spec that does not fit is refused with a sentence
// that names the layer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "models/layout.h"

namespace starling::models {

// Layers. Inputs are [channels, height, width] images; Linear flattens what it is given. What each computes
// is said in kernels/operation.h.
struct Convolution {
  int channels;  // out
  int kernel;    // square
  int stride = 1;
  int padding = 0;
  int groups = 1;  // divides the channels in and out
  bool bias = true;
};
struct AveragePool {
  int size;  // square window, stride = size
};
struct MaxPool {
  int size;
};
struct GlobalAveragePool {};  // each channel's mean: 1x1
struct Linear {
  int features;  // out
};
struct Relu {};
struct Gelu {};
// Its running statistics lie at the arena's end: averaged in exchanges, not trained.
struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;  // the part of the batch's statistics in the running ones
};
struct GroupNorm {
  int groups;  // divides the channels
  double epsilon = 1e-5;
};
// All of a sample's values are normalized together; scale and shift are one for each channel, which for
// vectors is each value.
struct LayerNorm {
  double epsilon = 1e-5;
};
struct Dropout {
  double rate = 0.5;  // the part that is dropped, in [0, 1)
};
struct Layer;
// y = layers(x) + shortcut(x), the shortcut being x itself where it has no layers (He et al., "Deep residual
// learning", CVPR 2016).
struct Residual {
  Residual();
  explicit Residual(std::vector<Layer> layers);
  Residual(std::vector<Layer> layers, std::vector<Layer> shortcut);

  std::vector<Layer> layers, shortcut;
};
struct Layer {
  using Kind = std::variant<Convolution, AveragePool, MaxPool, GlobalAveragePool, Linear, Relu, Gelu,
                            BatchNorm, GroupNorm, LayerNorm, Dropout, Residual>;
  template <class T>
  Layer(T it) : kind(std::move(it)) {}  // NOLINT(google-explicit-constructor): lists of layers read as such
  Kind kind;
};

inline Residual::Residual() = default;
inline Residual::Residual(std::vector<Layer> l) : layers(std::move(l)) {}
inline Residual::Residual(std::vector<Layer> l, std::vector<Layer> s) : layers(std::move(l)), shortcut(std::move(s)) {}

struct Shape {
  int channels = 1, height = 1, width = 1;
  int size() const { return channels * height * width; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Spec {
  std::string name;
  Shape input;
  std::vector<Layer> layers;  // the last one yields the logits, one per class
};

// A layer with its inferred shapes, cost and place in the arena, for building and for `model show`. A
// residual block's layers come first, then its shortcut's, then the sum itself, whose `layer` is a Residual
// without lists.
struct LayerInfo {
  std::string name;  // "conv1", "pool1", "fc2", "relu3": numbered per kind
  std::string kind;  // "convolution", "average pool", ...
  Layer layer;
  int from = kInput;  // the layer whose output it reads, by its index
  int other = kNone;  // of a sum: the shortcut's last
  Shape input, output;
  std::vector<std::size_t>
      tensors{};  // of the layout: a weight and its bias, or scale, shift, mean, variance
  std::size_t parameters = 0;
  double flops_forward = 0;  // per sample, a multiply-add counted as two

  static constexpr int kInput = -1, kNone = -2;
};
struct Plan {
  Spec spec;
  // "<name>.weight" [out, in / groups, k, k] or [out, in], "<name>.bias" [out], of normalizations
  // "<name>.weight" and
  // "<name>.bias" [channels], in layer order; then "<name>.running_mean" and "<name>.running_var" [channels].
  Layout layout;
  std::vector<LayerInfo> layers;  // in an order in which they can be computed; the last one yields the logits
  int classes;
};
Result<Plan> make_plan(Spec spec);

// The zoo, for images of `input` and `classes` classes. An unknown name is an
// Error that lists the known ones; a network that does not fit the input names the layer.
Result<Plan> make_model(const std::string& name, Shape input, int classes);
const std::vector<std::string>& model_names();
std::string describe_model(const std::string& name);  // a line for `model list`

}  // namespace starling::models

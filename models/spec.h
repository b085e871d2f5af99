// What a network is, as a plain value: an input shape and a list of layers. Shapes are inferred, and a spec
// that does not fit is refused with a sentence that names the layer.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "models/layout.h"

namespace starling::models {

// Layers. Inputs are [channels, height, width] images; Linear flattens what it is given.
struct Convolution {
  int channels;  // out
  int kernel;    // square
  int stride = 1;
  int padding = 0;
};
struct AveragePool {
  int size;  // square window, stride = size
};
struct MaxPool {
  int size;
};
struct Linear {
  int features;  // out
};
struct Relu {};
using Layer = std::variant<Convolution, AveragePool, MaxPool, Linear, Relu>;

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

// A layer with its inferred shapes, cost and place in the arena, for building and for `model show`.
struct LayerInfo {
  std::string name;  // "conv1", "pool1", "fc2", "relu3": numbered per kind
  std::string kind;  // "convolution", "average pool", ...
  Shape input, output;
  std::size_t parameters = 0;
  double flops_forward = 0;  // per sample, a multiply-add counted as two
};
struct Plan {
  Spec spec;
  Layout layout;  // "<name>.weight" [out, in, k, k] or [out, in], "<name>.bias" [out], in layer order
  std::vector<LayerInfo> layers;
  int classes;
};
Result<Plan> make_plan(Spec spec);

// The zoo: "softmax", "mlp", "lenet", for images of `input` and `classes` classes. An unknown name is an
// Error that lists the known ones; a network that does not fit the input names the layer.
Result<Plan> make_model(const std::string& name, Shape input, int classes);
const std::vector<std::string>& model_names();
std::string describe_model(const std::string& name);  // a line for `model list`

}  // namespace starling::models

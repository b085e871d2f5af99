// A network as a plain value: an input shape and a list of layers, where a residual block is one layer with
// its own lists. Shapes are inferred. An Error names the layer that does not fit.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "models/layout.h"

namespace starling::models {

// Layers. Inputs are [channels, height, width] images; Linear flattens its input. kernels/operation.h defines
// what each one computes.
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
  bool bias = true;
  // The weight is the network's embedding, [tokens, features], and there is no bias (Press and Wolf, "Using
  // the output embedding to improve language models", EACL 2017).
  bool tied = false;
  double deviation = 0;  // of the initial weights, normal, with biases of 0; 0: uniform in +-1/sqrt(inputs)
};
// Layers for sequences. A sequence of T tokens enters as their T numbers, and leaves an Embedding as T
// vectors, each of which is a sample of its own for all layers but Position and Attention.
struct Embedding {
  int features;          // of each vector
  int context;           // T
  int tokens = 0;        // the size of the vocabulary; 0: the number of classes
  double deviation = 1;  // of the initial weights, normal
};
struct Position {  // adds a learned vector for each position
  double deviation = 0.02;
};
// Reads what a linear layer of (heads + 2 groups) d features yields, and yields heads x d features.
struct Attention {
  int heads;
  int groups = 0;       // of keys and values; 0: as many as heads
  bool rotary = false;  // rotary positions, of base 10,000
  double dropout = 0;   // of the attention weights
};
struct Swiglu {};  // half as many features
struct RmsNorm {
  double epsilon = 1e-5;
};
struct Relu {};
struct Gelu {
  bool tanh = false;  // the approximation with the hyperbolic tangent
};
// Its running statistics are at the arena's end: averaged in exchanges, not trained.
struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;  // the weight of the batch's statistics in the running ones
};
struct GroupNorm {
  int groups;  // divides the channels
  double epsilon = 1e-5;
};
// Normalizes all values of a sample together, with a scale and a shift for each channel.
struct LayerNorm {
  double epsilon = 1e-5;
  bool bias = true;  // false: no shift
};
struct Dropout {
  double rate = 0.5;  // the fraction that is dropped, in [0, 1)
};
// A block of a Transformer, with the normalization first (Xiong et al., "On layer normalization in the
// Transformer architecture", ICML 2020): two residual blocks, one with attention and one with two linear
// layers.
struct TransformerBlock {
  int heads;
  int groups = 0;            // as of Attention
  int hidden = 0;            // features between the two linear layers; 0: four times the block's
  bool rms = false;          // RMS norm instead of layer norm
  bool swiglu = false;       // SwiGLU instead of GELU
  bool tanh = false;         // as of Gelu
  bool rotary = false;       // as of Attention
  bool bias = true;          // of linear layers and layer norms
  double dropout = 0;        // of attention weights and at the end of each residual branch
  double deviation = 0.02;   // of linear layers
  double out_deviation = 0;  // of the last linear layer of each branch; 0: the same
};
struct Layer;
// y = layers(x) + shortcut(x), where an empty shortcut is x itself (He et al., "Deep residual learning", CVPR
// 2016).
struct Residual {
  Residual();
  explicit Residual(std::vector<Layer> layers);
  Residual(std::vector<Layer> layers, std::vector<Layer> shortcut);

  std::vector<Layer> layers, shortcut;
};
struct Layer {
  using Kind = std::variant<Convolution, AveragePool, MaxPool, GlobalAveragePool, Linear, Relu, Gelu,
                            BatchNorm, GroupNorm, LayerNorm, Dropout, Residual, Embedding, Position,
                            Attention, Swiglu, RmsNorm, TransformerBlock>;
  template <class T>
  Layer(T it) : kind(std::move(it)) {}  // NOLINT(google-explicit-constructor): lists of layers read as such
  Kind kind;
};

inline Residual::Residual() = default;
inline Residual::Residual(std::vector<Layer> l) : layers(std::move(l)) {}
inline Residual::Residual(std::vector<Layer> l, std::vector<Layer> s)
    : layers(std::move(l)), shortcut(std::move(s)) {}

// Of one sample: an image, a vector (height = width = 1), or, if tokens > 0, a sequence of as many of them.
struct Shape {
  int channels = 1, height = 1, width = 1;
  int tokens = 0;
  int length() const { return tokens > 0 ? tokens : 1; }
  int size() const { return length() * channels * height * width; }
  int features() const { return channels * height * width; }  // of each token
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Spec {
  std::string name;
  Shape input;
  std::vector<Layer> layers;  // the last one yields the logits, one per class
};

// A layer with its inferred shapes, cost and tensors, for building and for `model show`. The layers of a
// residual block come first, then its shortcut's, then the sum, whose `layer` is a Residual without lists.
struct LayerInfo {
  std::string name;  // "conv1", "pool1", "fc2", "relu3": numbered per kind
  std::string kind;  // "convolution", "average pool", ...
  Layer layer;
  int from = kInput;  // the index of the layer whose output it reads
  int other = kNone;  // of a sum: the shortcut's last layer
  Shape input, output;
  std::vector<std::size_t> tensors{};  // of the layout: weight and bias, or scale, shift, mean, variance
  std::size_t parameters = 0;
  double flops_forward = 0;  // per sample, a multiply-add counted as two

  static constexpr int kInput = -1, kNone = -2;
};
// The running statistics of a normalization: the tensors of its mean and variance, and the weight of a
// batch's statistics in them.
struct RunningStatistics {
  std::size_t mean, variance;  // of the layout
  double momentum;
};
// Those of a layer; nullopt if it keeps none.
std::optional<RunningStatistics> running_statistics(const LayerInfo& layer);

struct Plan {
  Spec spec;
  // In layer order "<name>.weight" [out, in / groups, k, k] or [out, in] and "<name>.bias" [out], for
  // normalizations both [channels]; then "<name>.running_mean" and "<name>.running_var" [channels].
  Layout layout;
  std::vector<LayerInfo> layers;  // in an order of computation; the last one yields the logits
  int classes;
  // Labels, and predictions, of a sample: one for each token of a sequence.
  int labels() const { return spec.input.length(); }
};
Result<Plan> make_plan(Spec spec);

// A network of the zoo, for images of `input` and `classes` classes; for a text (input.tokens > 0) the
// network's own context replaces input.tokens. The Error lists the known names, or names the layer that does
// not fit the input.
Result<Plan> make_model(const std::string& name, Shape input, int classes);
// The layers of such a network; nullopt if it is unknown.
std::optional<std::vector<Layer>> zoo_layers(const std::string& name, int classes);
// The context of a network for sequences, from its first layer, the embedding; 0 for other networks.
int context_of(const std::vector<Layer>& layers);
const std::vector<std::string>& model_names();
std::string describe_model(const std::string& name);  // a line for `model list`

}  // namespace starling::models

// What Starling knows of each type of layer besides its fields (spec.h) and its arithmetic: one
// specialization per type, with its names, the keys of its text form, and which part of its input it reads.
// Planning (plan.cc), text (spec_text.cc) and lowering (lowering.cc) use these; a type without one does not
// compile.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "models/gpt.h"
#include "models/spec.h"

namespace starling::models {

// One key of a layer's text form: its field and the values that it accepts.
template <class T, class Value>
struct LayerKey {
  const char* name;
  Value T::*field;
  bool required = false;
  double low = 0, high = 1;  // for numbers; whole numbers have the same upper limit in all layers
  bool above_low = false, below_high = false;
};
template <class T, class Value, class... More>
LayerKey(const char*, Value T::*, More...) -> LayerKey<T, Value>;

// Which part of the input one value of the output depends on. Outputs that no layer reads can be omitted only
// in a chain of layers that read values, windows or, at its end, whole samples (lowering.h).
enum class Reads : std::uint8_t { value, window, sample, other };

struct Window {
  int size, stride, padding;
};

// kName: the type in text and in plans. kPrefix: its layers are "<prefix>1", "<prefix>2". kKeys: in the order
// in which they are written. window(): only with Reads::window.
template <class T>
struct LayerType;

template <>
struct LayerType<Convolution> {
  static constexpr const char *kName = "convolution", *kPrefix = "conv";
  static constexpr Reads kReads = Reads::window;
  static constexpr std::tuple kKeys{LayerKey{"channels", &Convolution::channels, true, 1},
                                    LayerKey{"kernel", &Convolution::kernel, true, 1},
                                    LayerKey{"stride", &Convolution::stride, false, 1},
                                    LayerKey{"padding", &Convolution::padding, false, 0},
                                    LayerKey{"groups", &Convolution::groups, false, 1},
                                    LayerKey{"bias", &Convolution::bias}};
  static Window window(const Convolution& it) { return {it.kernel, it.stride, it.padding}; }
};
template <class T>
struct PoolType {
  static constexpr const char* kPrefix = "pool";
  static constexpr Reads kReads = Reads::window;
  static constexpr std::tuple kKeys{LayerKey{"size", &T::size, true, 1}};
  static Window window(const T& it) { return {it.size, it.size, 0}; }
};
template <>
struct LayerType<AveragePool> : PoolType<AveragePool> {
  static constexpr const char* kName = "average pool";
};
template <>
struct LayerType<MaxPool> : PoolType<MaxPool> {
  static constexpr const char* kName = "max pool";
};
template <>
struct LayerType<GlobalAveragePool> {
  static constexpr const char *kName = "global average pool", *kPrefix = "pool";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{};
};
template <>
struct LayerType<Linear> {
  static constexpr const char *kName = "linear", *kPrefix = "fc";
  static constexpr Reads kReads = Reads::sample;
  // Without features, which is 0: one for each class.
  static constexpr std::tuple kKeys{LayerKey{"features", &Linear::features, false, 1},
                                    LayerKey{"bias", &Linear::bias}, LayerKey{"tied", &Linear::tied},
                                    LayerKey{"deviation", &Linear::deviation, false, 0, 1, true}};
};
template <>
struct LayerType<Relu> {
  static constexpr const char *kName = "relu", *kPrefix = "relu";
  static constexpr Reads kReads = Reads::value;
  static constexpr std::tuple kKeys{};
};
template <>
struct LayerType<Gelu> {
  static constexpr const char *kName = "gelu", *kPrefix = "gelu";
  static constexpr Reads kReads = Reads::value;
  static constexpr std::tuple kKeys{LayerKey{"tanh", &Gelu::tanh}};
};
template <>
struct LayerType<BatchNorm> {
  static constexpr const char *kName = "batch norm", *kPrefix = "bn";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"epsilon", &BatchNorm::epsilon, false, 0, 1, true, true},
                                    LayerKey{"momentum", &BatchNorm::momentum, false, 0, 1, true}};
};
template <>
struct LayerType<GroupNorm> {
  static constexpr const char *kName = "group norm", *kPrefix = "gn";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"groups", &GroupNorm::groups, true, 1},
                                    LayerKey{"epsilon", &GroupNorm::epsilon, false, 0, 1, true, true}};
};
template <>
struct LayerType<LayerNorm> {
  static constexpr const char *kName = "layer norm", *kPrefix = "ln";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"epsilon", &LayerNorm::epsilon, false, 0, 1, true, true},
                                    LayerKey{"bias", &LayerNorm::bias}};
};
template <>
struct LayerType<Dropout> {
  static constexpr const char *kName = "dropout", *kPrefix = "dropout";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"rate", &Dropout::rate, false, 0, 1, false, true}};
};
// No layer but a whole network, the text form of Gpt (gpt.h).
template <>
struct LayerType<Gpt> {
  static constexpr const char* kName = "gpt";
  static constexpr std::tuple kKeys{LayerKey{"layers", &Gpt::layers, true, 1},
                                    LayerKey{"heads", &Gpt::heads, true, 1},
                                    LayerKey{"features", &Gpt::features, true, 1},
                                    LayerKey{"context", &Gpt::context, true, 1},
                                    LayerKey{"groups", &Gpt::groups, false, 0},
                                    LayerKey{"hidden", &Gpt::hidden, false, 0},
                                    LayerKey{"rms", &Gpt::rms},
                                    LayerKey{"swiglu", &Gpt::swiglu},
                                    LayerKey{"tanh", &Gpt::tanh},
                                    LayerKey{"rotary", &Gpt::rotary},
                                    LayerKey{"bias", &Gpt::bias},
                                    LayerKey{"tied", &Gpt::tied},
                                    LayerKey{"dropout", &Gpt::dropout, false, 0, 1, false, true}};
};
// In a plan the sum at its end: "sum", named "add1", "add2".
template <>
struct LayerType<Residual> {
  static constexpr const char *kName = "residual", *kPrefix = "add";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"layers", &Residual::layers, true, 1},
                                    LayerKey{"shortcut", &Residual::shortcut}};
};

template <>
struct LayerType<Embedding> {
  static constexpr const char *kName = "embedding", *kPrefix = "embedding";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"features", &Embedding::features, true, 1},
                                    LayerKey{"context", &Embedding::context, true, 1},
                                    LayerKey{"tokens", &Embedding::tokens, false, 1},
                                    LayerKey{"deviation", &Embedding::deviation, false, 0, 1, true}};
};
template <>
struct LayerType<Position> {
  static constexpr const char *kName = "position", *kPrefix = "position";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"deviation", &Position::deviation, false, 0, 1, true}};
};
template <>
struct LayerType<Attention> {
  static constexpr const char *kName = "attention", *kPrefix = "attention";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"heads", &Attention::heads, true, 1},
                                    LayerKey{"groups", &Attention::groups, false, 1},
                                    LayerKey{"rotary", &Attention::rotary},
                                    LayerKey{"dropout", &Attention::dropout, false, 0, 1, false, true}};
};
template <>
struct LayerType<Swiglu> {
  static constexpr const char *kName = "swiglu", *kPrefix = "swiglu";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{};
};
template <>
struct LayerType<RmsNorm> {
  static constexpr const char *kName = "rms norm", *kPrefix = "norm";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{LayerKey{"epsilon", &RmsNorm::epsilon, false, 0, 1, true, true}};
};
// Not in a plan, which has its layers instead.
template <>
struct LayerType<TransformerBlock> {
  static constexpr const char *kName = "block", *kPrefix = "block";
  static constexpr Reads kReads = Reads::other;
  static constexpr std::tuple kKeys{
      LayerKey{"heads", &TransformerBlock::heads, true, 1},
      LayerKey{"groups", &TransformerBlock::groups, false, 1},
      LayerKey{"hidden", &TransformerBlock::hidden, false, 1},
      LayerKey{"rms", &TransformerBlock::rms},
      LayerKey{"swiglu", &TransformerBlock::swiglu},
      LayerKey{"tanh", &TransformerBlock::tanh},
      LayerKey{"rotary", &TransformerBlock::rotary},
      LayerKey{"bias", &TransformerBlock::bias},
      LayerKey{"dropout", &TransformerBlock::dropout, false, 0, 1, false, true},
      LayerKey{"deviation", &TransformerBlock::deviation, false, 0, 1, true},
      LayerKey{"out_deviation", &TransformerBlock::out_deviation, false, 0, 1, true}};
};

// Calls visit(key) for each key of T.
template <class T, class Visit>
void for_each_key(Visit visit) {
  std::apply([&](const auto&... keys) { (visit(keys), ...); }, LayerType<T>::kKeys);
}

// Calls visit(T{}) for each type T of layer in Kind, a variant such as Layer::Kind.
template <class Kind = Layer::Kind, class Visit>
void for_each_layer_type(Visit visit) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (visit(std::variant_alternative_t<I, Kind>{}), ...); }
  (std::make_index_sequence<std::variant_size_v<Kind>>{});
}

template <class Kind = Layer::Kind>
std::vector<std::string> layer_type_names() {
  std::vector<std::string> names;
  for_each_layer_type<Kind>([&]<class T>(T) { names.emplace_back(LayerType<T>::kName); });
  return names;
}

}  // namespace starling::models

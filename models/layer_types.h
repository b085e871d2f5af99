// What Starling must know of each type of layer besides its fields (spec.h) and its arithmetic: one
// specialization per type, with its names, the keys of its text form, and how much of its input it reads.
// Planning (spec.cc), text (spec_text.cc) and lowering (lowering.cc) read these; a type without one does not
// compile.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

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

// Which part of the input one value of the output depends on. Outputs that nobody reads can be left out only
// in a chain of layers that read values, windows or, at its end, whole samples (lowering.h).
enum class Reads : std::uint8_t { value, window, sample, other };

struct Window {
  int size, stride, padding;
};

// kName: the type in text and in plans. kPrefix: its layers are "<prefix>1", "<prefix>2". keys(): calls visit
// with each key, in the order in which they are written. window(): only with Reads::window.
template <class T>
struct LayerType;

template <>
struct LayerType<Convolution> {
  static constexpr const char *kName = "convolution", *kPrefix = "conv";
  static constexpr Reads kReads = Reads::window;
  static Window window(const Convolution& it) { return {it.kernel, it.stride, it.padding}; }
  template <class Visit>
  static void keys(Visit visit) {
    using L = Convolution;
    visit(LayerKey<L, int>{"channels", &L::channels, true, 1});
    visit(LayerKey<L, int>{"kernel", &L::kernel, true, 1});
    visit(LayerKey<L, int>{"stride", &L::stride, false, 1});
    visit(LayerKey<L, int>{"padding", &L::padding, false, 0});
    visit(LayerKey<L, int>{"groups", &L::groups, false, 1});
    visit(LayerKey<L, bool>{"bias", &L::bias});
  }
};
template <>
struct LayerType<AveragePool> {
  static constexpr const char *kName = "average pool", *kPrefix = "pool";
  static constexpr Reads kReads = Reads::window;
  static Window window(const AveragePool& it) { return {it.size, it.size, 0}; }
  template <class Visit>
  static void keys(Visit visit) {
    visit(LayerKey<AveragePool, int>{"size", &AveragePool::size, true, 1});
  }
};
template <>
struct LayerType<MaxPool> {
  static constexpr const char *kName = "max pool", *kPrefix = "pool";
  static constexpr Reads kReads = Reads::window;
  static Window window(const MaxPool& it) { return {it.size, it.size, 0}; }
  template <class Visit>
  static void keys(Visit visit) {
    visit(LayerKey<MaxPool, int>{"size", &MaxPool::size, true, 1});
  }
};
template <>
struct LayerType<GlobalAveragePool> {
  static constexpr const char *kName = "global average pool", *kPrefix = "pool";
  static constexpr Reads kReads = Reads::other;
  template <class Visit>
  static void keys(Visit) {}
};
template <>
struct LayerType<Linear> {
  static constexpr const char *kName = "linear", *kPrefix = "fc";
  static constexpr Reads kReads = Reads::sample;
  template <class Visit>
  static void keys(Visit visit) {  // without features, which is 0: one for each class
    visit(LayerKey<Linear, int>{"features", &Linear::features, false, 1});
  }
};
template <>
struct LayerType<Relu> {
  static constexpr const char *kName = "relu", *kPrefix = "relu";
  static constexpr Reads kReads = Reads::value;
  template <class Visit>
  static void keys(Visit) {}
};
template <>
struct LayerType<Gelu> {
  static constexpr const char *kName = "gelu", *kPrefix = "gelu";
  static constexpr Reads kReads = Reads::value;
  template <class Visit>
  static void keys(Visit) {}
};
template <>
struct LayerType<BatchNorm> {
  static constexpr const char *kName = "batch norm", *kPrefix = "bn";
  static constexpr Reads kReads = Reads::other;
  template <class Visit>
  static void keys(Visit visit) {
    visit(LayerKey<BatchNorm, double>{"epsilon", &BatchNorm::epsilon, false, 0, 1, true, true});
    visit(LayerKey<BatchNorm, double>{"momentum", &BatchNorm::momentum, false, 0, 1, true});
  }
};
template <>
struct LayerType<GroupNorm> {
  static constexpr const char *kName = "group norm", *kPrefix = "gn";
  static constexpr Reads kReads = Reads::other;
  template <class Visit>
  static void keys(Visit visit) {
    visit(LayerKey<GroupNorm, int>{"groups", &GroupNorm::groups, true, 1});
    visit(LayerKey<GroupNorm, double>{"epsilon", &GroupNorm::epsilon, false, 0, 1, true, true});
  }
};
template <>
struct LayerType<LayerNorm> {
  static constexpr const char *kName = "layer norm", *kPrefix = "ln";
  static constexpr Reads kReads = Reads::other;
  template <class Visit>
  static void keys(Visit visit) {
    visit(LayerKey<LayerNorm, double>{"epsilon", &LayerNorm::epsilon, false, 0, 1, true, true});
  }
};
template <>
struct LayerType<Dropout> {
  static constexpr const char *kName = "dropout", *kPrefix = "dropout";
  static constexpr Reads kReads = Reads::other;
  template <class Visit>
  static void keys(Visit visit) {
    visit(LayerKey<Dropout, double>{"rate", &Dropout::rate, false, 0, 1, false, true});
  }
};
// A plan has the sum at its end: "sum", named "add1", "add2".
template <>
struct LayerType<Residual> {
  static constexpr const char *kName = "residual", *kPrefix = "add";
  static constexpr Reads kReads = Reads::other;
  template <class Visit>
  static void keys(Visit visit) {
    visit(LayerKey<Residual, std::vector<Layer>>{"layers", &Residual::layers, true, 1});
    visit(LayerKey<Residual, std::vector<Layer>>{"shortcut", &Residual::shortcut});
  }
};

// Calls visit(T{}) for each type of layer.
template <class Visit>
void for_each_layer_type(Visit visit) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (visit(std::variant_alternative_t<I, Layer::Kind>{}), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Layer::Kind>>{});
}

}  // namespace starling::models

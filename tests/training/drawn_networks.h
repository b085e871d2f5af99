// Random networks of all types of layers, for tests that compare two ways to compute a network.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "models/layer_types.h"
#include "models/spec_text.h"

namespace starling::training {

enum class Samples : std::uint8_t { images, rows, texts };

class NetworkDraw {
 public:
  NetworkDraw(Random random, Samples samples) : random_(random), samples_(samples) {}

  // A network for `classes` classes. Draws until one fits its input.
  models::Plan plan(int classes) {
    for (;;) {
      const models::Shape input = shape();
      const models::ModelText text{"drawn", models::format_layers(layers(input))};
      if (auto plan = models::make_model(text, input, classes)) return std::move(*plan);
    }
  }

 private:
  int from(int low, int high) {
    return low + static_cast<int>(random_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool chance(double probability = 0.5) { return random_.chance(probability); }

  models::Shape shape() {
    if (samples_ == Samples::texts) return {1, 1, 1, from(2, 12)};
    if (samples_ == Samples::rows) return {from(1, 12), 1, 1};
    return {from(1, 4), from(5, 14), from(5, 14)};
  }

  std::vector<models::Layer> layers(models::Shape input) {
    std::vector<models::Layer> layers;
    int features = 4 * from(1, 6);
    if (samples_ == Samples::texts) {
      layers.push_back(models::Embedding{features, input.tokens});
      if (chance()) layers.push_back(models::Position{});
    }
    for (int count = from(1, 6); count > 0; --count) {
      std::vector<models::Layer> next = piece(features);
      if (chance(0.2))
        next = {
            models::Residual(std::move(next), chance(0.3) ? same(features) : std::vector<models::Layer>{})};
      layers.insert(layers.end(), next.begin(), next.end());
    }
    const bool tied = samples_ == Samples::texts && chance();
    layers.push_back(models::Linear{0, !tied && chance(), tied});
    return layers;
  }

  // Layers that may keep the shape.
  std::vector<models::Layer> same(int features) {
    if (samples_ == Samples::images) return {models::Convolution{features, 1}};
    return {models::Linear{features, chance()}};
  }

  std::vector<models::Layer> piece(int& features) {
    switch (from(0, samples_ == Samples::images ? 11 : samples_ == Samples::rows ? 8 : 11)) {
      case 0:
        return {models::Relu{}};
      case 1:
        return {models::Gelu{chance()}};
      case 2:
        return {models::BatchNorm{chance() ? 1e-5 : 1e-3}};
      case 3:
        return {models::GroupNorm{chance() ? 1 : 2}};
      case 4:
        return {models::LayerNorm{1e-5, chance()}};
      case 5:
        return {models::RmsNorm{}};
      case 6:
        return {models::Dropout{0.3}};
      case 7:
        return {models::Linear{2 * features, chance()}, models::Swiglu{}};
      case 8:
        return {models::Linear{features = 4 * from(1, 6), chance()}};
      default:
        return samples_ == Samples::images ? of_images(features) : of_texts(features);
    }
  }

  std::vector<models::Layer> of_images(int& features) {
    switch (from(0, 4)) {
      case 0:
        return {models::AveragePool{from(1, 3)}};
      case 1:
        return {models::MaxPool{from(1, 3)}};
      case 2:
        return {models::GlobalAveragePool{}};
      default: {
        const int kernel = from(1, 4);
        features = 4 * from(1, 4);
        return {models::Convolution{features, kernel, from(1, 2), from(0, kernel - 1), chance(0.7) ? 1 : 2,
                                    chance()}};
      }
    }
  }

  std::vector<models::Layer> of_texts(int features) {
    const int heads = chance() ? 2 : 1;
    models::TransformerBlock block{heads};
    block.groups = chance() ? 0 : 1;
    block.hidden = from(1, 20);
    block.rms = chance();
    block.swiglu = chance();
    block.tanh = chance();
    block.rotary = chance();
    block.bias = chance();
    block.dropout = chance() ? 0 : 0.1;
    if (chance(0.8)) return {block};
    return {models::Linear{3 * features}, models::Attention{heads, 0, chance()},
            models::Convolution{features, 1}};
  }

  Random random_;
  Samples samples_;
};

}  // namespace starling::training

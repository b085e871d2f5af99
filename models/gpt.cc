#include "models/gpt.h"

#include <cmath>

namespace starling::models {

std::vector<Layer> gpt_layers(const Gpt& options, int tokens) {
  constexpr double kDeviation = 0.02;
  std::vector<Layer> layers{Embedding{options.features, options.context, tokens, kDeviation}};
  if (!options.rotary) layers.push_back(Position{kDeviation});
  if (options.dropout > 0) layers.push_back(Dropout{options.dropout});
  TransformerBlock block{options.heads};
  block.groups = options.groups;
  block.hidden = options.hidden;
  block.rms = options.rms;
  block.swiglu = options.swiglu;
  block.tanh = options.tanh;
  block.rotary = options.rotary;
  block.bias = options.bias;
  block.dropout = options.dropout;
  block.deviation = kDeviation;
  block.out_deviation = kDeviation / std::sqrt(2.0 * options.layers);
  layers.insert(layers.end(), static_cast<std::size_t>(options.layers), block);
  layers.push_back(options.rms ? Layer(RmsNorm{}) : Layer(LayerNorm{1e-5, options.bias}));
  layers.push_back(Linear{tokens, false, options.tied, options.tied ? 0 : kDeviation});
  return layers;
}

}  // namespace starling::models

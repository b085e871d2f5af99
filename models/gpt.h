// Transformers that predict the next token, as lists of layers.
#pragma once

#include <vector>

#include "models/spec.h"

namespace starling::models {

struct Gpt {
  int layers = 0, heads = 0, features = 0, context = 0;
  int groups = 0, hidden = 0;  // as of TransformerBlock
  bool rms = false, swiglu = false, tanh = false, rotary = false;
  bool bias = true;
  bool tied = true;  // the output layer has the embedding's weights
  double dropout = 0;
};

// An embedding with learned positions (unless `rotary`), blocks, a last normalization, and a linear layer
// with one output for each of `tokens` tokens; 0: for each class (Radford et al., "Language models are
// unsupervised multitask learners", 2019). Weights begin normal with a deviation of 0.02, those at the end of
// residual branches with 0.02 / sqrt(2 layers).
std::vector<Layer> gpt_layers(const Gpt& options, int tokens = 0);

}  // namespace starling::models

// Continues a sequence token by token with a network for text (models/gpt.h), on the host. It computes only
// the new token and keeps the keys and values of the earlier ones, so that a token costs one pass over the
// parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "models/spec.h"

namespace starling::models {

class Generator {
 public:
  // An Error unless all layers of the plan are known here: the layers of models/gpt.h. `parameters`:
  // arena_size() floats, which do not change. All arguments outlive the generator.
  static Result<Generator> make(const Plan& plan, std::span<const float> parameters);

  int context() const { return plan_->spec.input.tokens; }
  int tokens() const { return plan_->classes; }
  int length() const { return length_; }  // tokens read so far

  // Reads the next token. Returns the logits of the one that follows, tokens() floats that are valid until
  // the next call. REQUIRES: token < tokens(), length() < context().
  std::span<const float> read(std::uint32_t token);
  // Forgets all tokens.
  void clear() { length_ = 0; }

 private:
  Generator(const Plan& plan, std::span<const float> parameters);

  const float* tensor(const LayerInfo& layer, std::size_t index) const;
  std::vector<float>& output(int layer) { return outputs_[static_cast<std::size_t>(layer)]; }

  // The layer's output for one token, from its input x.
  void compute(const Linear& layer, const LayerInfo& info, const std::vector<float>& x,
               std::vector<float>& y) const;
  void compute(const LayerNorm& layer, const LayerInfo& info, const std::vector<float>& x,
               std::vector<float>& y) const;
  void compute(const RmsNorm& layer, const LayerInfo& info, const std::vector<float>& x,
               std::vector<float>& y) const;
  void attend(const Attention& layer, std::vector<float> x, std::vector<float>& cache,
              std::vector<float>& y) const;

  const Plan* plan_;
  std::span<const float> parameters_;
  int length_ = 0;
  std::vector<std::vector<float>> outputs_;  // of each layer, for the latest token
  std::vector<std::vector<float>>
      caches_;  // of each attention layer [context, 2 groups x head size]; else empty
};

// How a token is drawn from logits.
struct Sampling {
  double temperature = 1;  // 0: the most likely token
  int top_k = 0;           // of the most likely ones only; 0: of all
  double top_p = 1;  // of the most likely ones whose probabilities add up to this (Holtzman et al., 2020)
};
// REQUIRES: there are logits, all finite; temperature >= 0, top_k >= 0, 0 < top_p <= 1.
std::uint32_t draw_token(std::span<const float> logits, const Sampling& sampling, Random& random);

}  // namespace starling::models

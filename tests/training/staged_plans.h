// Small networks that are divided into stages, with batches and first parameters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/buffer.h"
#include "models/network.h"
#include "models/spec.h"
#include "tests/models/plans.h"

namespace starling::training::testing {

inline models::Plan planned(models::Spec spec) {
  return std::move(models::make_plan(std::move(spec))).value();
}
inline models::Plan zoo(const char* name, models::Shape input) {
  return std::move(models::make_model(name, input, 10)).value();
}

// Convolutions, pools and linear layers; residual blocks with batch norms and dropout; a text with a tied
// output layer and dropout in attention.
inline std::vector<models::Plan> plans_for_stages() {
  using namespace models;
  std::vector<Plan> plans{zoo("lenet", {1, 14, 14})};
  plans.push_back(planned({"residual",
                           {2, 6, 6},
                           {Convolution{4, 3, 1, 1, 1, false}, BatchNorm{}, Relu{},
                            Residual{{Convolution{4, 3, 1, 1, 1, false}, BatchNorm{}, Relu{}, Dropout{0.3},
                                      Convolution{4, 3, 1, 1}}},
                            Residual{{Convolution{6, 3, 2, 1}, BatchNorm{}}, {Convolution{6, 1, 2}}},
                            GlobalAveragePool{}, Linear{3}}}));
  Spec text{"text", {1, 1, 1, 6}, {}};
  text.layers = {Embedding{12, 6, 9, 0.02},
                 Position{},
                 TransformerBlock{.heads = 2, .dropout = 0.2},
                 TransformerBlock{.heads = 2, .rms = true, .swiglu = true, .rotary = true},
                 LayerNorm{},
                 Linear{.features = 9, .tied = true}};
  plans.push_back(planned(std::move(text)));
  return plans;
}

inline models::Batch batch_of(Random& random, const models::Plan& plan, int samples) {
  if (plan.labels() == 1) return models::random_batch(random, plan, samples);
  models::Batch it;
  for (int i = 0; i < samples * plan.labels(); ++i) {
    it.inputs.push_back(static_cast<float>(random.below(static_cast<std::uint64_t>(plan.classes))));
    it.labels.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(plan.classes))));
  }
  return it;
}

// `stages` stages whose cuts are drawn.
inline std::vector<int> cuts_for(Random& random, const models::Plan& plan, std::size_t stages) {
  std::vector<int> all(plan.layers.size() - 1);
  std::iota(all.begin(), all.end(), 1);
  random.shuffle(std::span(all));
  all.resize(stages - 1);
  std::sort(all.begin(), all.end());
  return all;
}

inline std::vector<float> first_values(const models::Plan& plan) {
  std::vector<float> x(plan.layout.arena_size());
  models::initialize(plan, Random(5), x);
  return x;
}

struct Aligned {  // a vector at an aligned place
  explicit Aligned(const std::vector<float>& values) : buffer(values.size()) {
    std::copy(values.begin(), values.end(), buffer.data());
  }
  kernels::Buffer buffer;
};

}  // namespace starling::training::testing

// Networks and batches for tests of models.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/by_name/backends.h"
#include "models/spec.h"

namespace starling::models {

// Lives until the program ends.
inline const kernels::Backend& backend(const std::string& name) {
  static std::map<std::string, std::unique_ptr<kernels::Backend>> made;
  auto& it = made[name];
  if (!it) it = std::move(kernels::make_backend(name)).value();
  return *it;
}

struct Batch {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
};

inline Batch random_batch(Random& random, const Plan& plan, int batch) {
  Batch it;
  it.inputs.resize(static_cast<std::size_t>(batch * plan.spec.input.size()));
  it.labels.resize(static_cast<std::size_t>(batch));
  for (float& x : it.inputs) x = static_cast<float>(random.uniform(-1, 1));
  for (auto& label : it.labels)
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(plan.classes)));
  return it;
}

// Networks with every kind of layer, padding, strides, odd extents that pools truncate, and pools that come
// first.
inline std::vector<Plan> assorted_plans() {
  std::vector<Spec> specs{
      {"cut",
       {2, 11, 10},
       {Convolution{5, 3}, Relu{}, AveragePool{2}, Convolution{6, 2}, Relu{}, MaxPool{2}, Linear{3}}},
      {"padded",
       {3, 7, 7},
       {Convolution{8, 3, 2, 1}, Relu{}, Convolution{9, 3, 1, 1}, MaxPool{3}, Linear{8}, Relu{}, Linear{4}}},
      {"pool first", {2, 9, 9}, {AveragePool{2}, Relu{}, Convolution{4, 3}, Linear{3}}},
      {"padded and cut", {1, 9, 9}, {Convolution{6, 5, 1, 2}, Relu{}, AveragePool{4}, Linear{3}}},
      {"convolution last", {3, 5, 5}, {Convolution{4, 3, 2}, Relu{}, Convolution{3, 2}}},
      {"deep", {4, 1, 1}, {Linear{9}, Relu{}, Linear{8}, Relu{}, Relu{}, Linear{5}}},
      {"normalized",
       {3, 6, 6},
       {Convolution{4, 3, 1, 1, 1, false}, BatchNorm{}, Relu{}, GroupNorm{2}, MaxPool{2}, Linear{3}}},
      {"grouped",
       {4, 5, 5},
       {Convolution{6, 3, 2, 1, 2}, Gelu{}, GlobalAveragePool{}, LayerNorm{}, Linear{3}}},
      {"residual first",
       {3, 4, 4},
       {Residual{{Convolution{3, 3, 1, 1}, Relu{}}}, Relu{}, Convolution{5, 3}, Linear{3}}},
      {"residual",
       {2, 7, 7},
       {Convolution{5, 3, 1, 1}, Relu{},
        Residual{{Convolution{5, 3, 1, 1, 1, false}, BatchNorm{}, Relu{}, Convolution{5, 3, 1, 1, 1, false},
                  BatchNorm{}}},
        Relu{}, Residual{{Convolution{6, 3, 2, 1}, BatchNorm{}}, {Convolution{6, 1, 2}, BatchNorm{}}},
        Residual{{Gelu{}, Residual{{Convolution{6, 1}}}}}, GlobalAveragePool{}, Linear{3}}},
      {"residual vectors",
       {5, 1, 1},
       {Linear{6}, Residual{{LayerNorm{}, Linear{6}, Gelu{}, Linear{6}}}, Linear{2}}},
      {"elementwise last in branches",
       {5, 1, 1},
       {Linear{6}, Residual{{Linear{6}, Gelu{}}}, Residual{{LayerNorm{}, Gelu{}}}, Linear{2}}},
  };
  std::vector<Plan> plans;
  for (Spec& spec : specs) plans.push_back(std::move(make_plan(std::move(spec))).value());
  return plans;
}

}  // namespace starling::models

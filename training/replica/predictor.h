// The predictions of a model for samples.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "models/network.h"

namespace starling::training {

struct Prediction {
  std::uint32_t sample = 0;  // in its set
  std::uint32_t label = 0;   // the data set's
  std::uint32_t guess = 0;   // the likeliest class
  double probability = 0;    // of that, by softmax
};

// Of the first `limit` samples, in their order, each told to `tell` as soon as its batch is computed.
// `parameters`: arena_size() floats on the host. REQUIRES: a back end of the host; the plan fits the data's
// shape and classes.
void predict(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
             const float* parameters, std::size_t limit, const std::function<void(const Prediction&)>& tell);

}  // namespace starling::training

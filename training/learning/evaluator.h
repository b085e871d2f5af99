// Evaluates a model on samples: accuracy and loss, or a prediction for each sample.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "models/network.h"
#include "training/learning/feed.h"

namespace starling::training {

// Accuracy and mean loss of parameters over the labels of the first `limit` samples of a data set; zeros if
// it is empty.
// Holds a network without a backward pass.
class Evaluator {
 public:
  // The first three outlive the evaluator; replicas are in the back end's memory. REQUIRES: batch > 0; the
  // plan fits the data's shape and classes.
  Evaluator(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
            int batch = kBatch);
  static constexpr int kBatch = 64;  // memory of ResNet-18: a quarter of training

  struct Score {
    double accuracy = 0;
    double loss = 0;
  };
  Score evaluate(const float* parameters, std::size_t limit = SIZE_MAX);
  // The same for several replicas; reads each sample once.
  std::vector<Score> evaluate(std::span<const float* const> replicas, std::size_t limit = SIZE_MAX);

 private:
  models::Network network_;
  const datasets::Dataset& data_;
  std::size_t batch_;
  Feed feed_;
};

// How many of the first samples an evaluation during a run uses: 1,000, of a text as many as have 20,000
// tokens.
std::size_t samples_of_look(const datasets::Dataset& test);

// The prediction of a model for a sample.
struct Prediction {
  std::uint32_t sample = 0;                // in its set
  std::uint32_t label = 0;                 // the data set's
  std::uint32_t guess = 0;                 // the likeliest class
  double probability = 0;                  // of that, by softmax
  std::vector<double> probabilities = {};  // of all classes
};

// Calls `tell` for each of the first `limit` samples, in their order, as soon as its batch is computed.
// `parameters`: arena_size() floats on the host. REQUIRES: a back end of the host; the plan fits the data's
// shape and classes.
void predict(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
             const float* parameters, std::size_t limit, const std::function<void(const Prediction&)>& tell);

// The softmax of the model's scores for the first sample, one value per class. REQUIRES: as predict(); there
// is a sample.
std::vector<double> class_probabilities(const models::Plan& plan, const kernels::Backend& backend,
                                        const datasets::Dataset& data, const float* parameters);

}  // namespace starling::training

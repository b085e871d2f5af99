#include "training/replica/predictor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "training/replica/feed.h"

namespace starling::training {
namespace {

constexpr std::size_t kBatch = 64;

// The likeliest class of a sample's scores, and its part of softmax; the largest taken out first, no
// exponential overflows.
std::pair<std::uint32_t, double> judge(std::span<const float> scores) {
  const auto best = std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - static_cast<double>(*best));
  return {static_cast<std::uint32_t>(best - scores.begin()), 1 / sum};
}

}  // namespace

void predict(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
             const float* parameters, std::size_t limit, const std::function<void(const Prediction&)>& tell) {
  STARLING_CHECK(plan.spec.input.size() == data.shape.size() && plan.classes >= data.classes);
  models::Network network(plan, backend, static_cast<int>(kBatch), models::Purpose::evaluate);
  Feed feed(backend, data, nullptr, kBatch);
  const auto classes = static_cast<std::size_t>(plan.classes);
  std::vector<std::uint32_t> indices(kBatch);
  std::vector<float> scores;
  const std::size_t total = std::min(limit, data.size());
  for (std::size_t start = 0; start < total; start += kBatch) {
    const std::size_t count = std::min(kBatch, total - start);
    const auto batch = std::span(indices).first(count);
    std::iota(batch.begin(), batch.end(), static_cast<std::uint32_t>(start));
    feed.choose(0, batch);
    feed.bring(0, network.queue());
    scores.resize(count * classes);
    network.score(parameters, feed.inputs(), static_cast<int>(count), scores);
    for (std::size_t i = 0; i < count; ++i) {
      const auto [guess, probability] = judge(std::span(scores).subspan(i * classes, classes));
      tell({batch[i], data.labels[batch[i]], guess, probability});
    }
  }
}

}  // namespace starling::training

#include "training/learning/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace starling::training {
namespace {

// Brings the first `limit` samples to the feed, batch by batch, and calls pass(samples of the batch).
template <class Pass>
void for_batches(const datasets::Dataset& data, std::size_t limit, std::size_t batch, Feed& feed,
                 kernels::Queue& queue, Pass pass) {
  std::vector<std::uint32_t> indices(batch);
  const std::size_t total = std::min(limit, data.size());
  for (std::size_t start = 0; start < total; start += batch) {
    const auto samples = std::span(indices).first(std::min(batch, total - start));
    std::iota(samples.begin(), samples.end(), static_cast<std::uint32_t>(start));
    feed.choose(0, samples);
    feed.bring(0, queue);
    pass(samples);
  }
}

// Subtracts the largest score, so that no exponential overflows.
std::vector<double> softmax(std::span<const float> scores) {
  const double best = *std::ranges::max_element(scores);
  std::vector<double> probabilities;
  double sum = 0;
  for (const float score : scores)
    sum += probabilities.emplace_back(std::exp(static_cast<double>(score) - best));
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace

Evaluator::Evaluator(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
                     int batch)
    : network_(plan, backend, batch, models::NetworkUse::evaluate),
      data_(data),
      batch_(static_cast<std::size_t>(batch)),
      feed_(backend, data, nullptr, batch_) {
  STARLING_CHECK(plan.spec.input.size() == data.shape.size() && plan.classes >= data.classes);
}

Evaluator::Score Evaluator::evaluate(const float* parameters, std::size_t limit) {
  return evaluate(std::span(&parameters, 1), limit).front();
}

std::vector<Evaluator::Score> Evaluator::evaluate(std::span<const float* const> replicas, std::size_t limit) {
  std::vector<double> loss_sums(replicas.size());
  std::vector<std::int64_t> correct(replicas.size());
  std::int64_t predictions = 0;
  for_batches(data_, limit, batch_, feed_, network_.queue(), [&](std::span<const std::uint32_t> samples) {
    const auto judged = static_cast<int>(data_.labels_of(samples.front(), samples.size()));
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      const auto result = network_.evaluate(replicas[r], feed_.inputs(), feed_.labels(), judged);
      loss_sums[r] += result.loss_sum;
      correct[r] += result.correct;
    }
    predictions += judged;
  });
  std::vector<Score> scores(replicas.size());
  const auto n = static_cast<double>(predictions);
  for (std::size_t r = 0; r < replicas.size() && n > 0; ++r)
    scores[r] = {.accuracy = static_cast<double>(correct[r]) / n, .loss = loss_sums[r] / n};
  return scores;
}

std::size_t samples_of_look(const datasets::Dataset& test) {
  constexpr std::size_t kSamples = 1000, kTokens = 20'000;
  return test.is_text() ? std::max<std::size_t>(1, kTokens / std::max(1U, test.context)) : kSamples;
}

void predict(const models::Plan& plan, const kernels::Backend& backend, const datasets::Dataset& data,
             const float* parameters, std::size_t limit, const std::function<void(const Prediction&)>& tell) {
  STARLING_CHECK(plan.spec.input.size() == data.shape.size() && plan.classes >= data.classes);
  models::Network network(plan, backend, Evaluator::kBatch, models::NetworkUse::evaluate);
  Feed feed(backend, data, nullptr, Evaluator::kBatch);
  const auto classes = static_cast<std::size_t>(plan.classes);
  std::vector<float> scores;
  for_batches(data, limit, Evaluator::kBatch, feed, network.queue(),
              [&](std::span<const std::uint32_t> samples) {
                scores.resize(samples.size() * classes);
                network.score(parameters, feed.inputs(), static_cast<int>(samples.size()), scores);
                for (std::size_t i = 0; i < samples.size(); ++i) {
                  const std::span own = std::span(scores).subspan(i * classes, classes);
                  auto probabilities = softmax(own);
                  const auto best = static_cast<std::uint32_t>(std::ranges::max_element(own) - own.begin());
                  const double probability = probabilities[best];
                  tell({samples[i], data.labels[samples[i]], best, probability, std::move(probabilities)});
                }
              });
}

std::vector<double> class_probabilities(const models::Plan& plan, const kernels::Backend& backend,
                                        const datasets::Dataset& data, const float* parameters) {
  STARLING_CHECK(plan.spec.input.size() == data.shape.size() && data.size() > 0);
  models::Network network(plan, backend, 1, models::NetworkUse::evaluate);
  Feed feed(backend, data, nullptr, 1);
  std::vector<float> scores(static_cast<std::size_t>(plan.classes));
  for_batches(data, 1, 1, feed, network.queue(),
              [&](std::span<const std::uint32_t>) { network.score(parameters, feed.inputs(), 1, scores); });
  return softmax(scores);
}

}  // namespace starling::training

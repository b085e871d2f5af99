#include "lab/simulate/judge.h"

#include <algorithm>
#include <future>
#include <span>

namespace starling::lab {

using training::Evaluator;

Evaluator::Score Judge::score(const std::vector<float>& parameters, std::size_t limit) {
  if (!evaluator_) evaluator_ = std::make_unique<Evaluator>(plan_, backend_, test_);
  return evaluator_->evaluate(parameters.data(), limit);
}

std::vector<Evaluator::Score> Judge::scores(const training::Replicas& replicas) {
  // With many replicas, a task evaluates several, so that each sample is read once for all of them.
  const std::size_t together = std::max<std::size_t>(1, replicas.size() / 64);
  std::vector<std::future<std::vector<Evaluator::Score>>> pending;
  for (std::size_t first = 0; first < replicas.size(); first += together) {
    const std::size_t count = std::min(together, replicas.size() - first);
    pending.push_back(pool_.submit([this, some = std::span(replicas).subspan(first, count)] {
      std::vector<const float*> parameters;
      for (const auto& replica : some) parameters.push_back(replica.data());
      return Evaluator(plan_, backend_, test_).evaluate(parameters);
    }));
  }
  std::vector<Evaluator::Score> scores;
  scores.reserve(replicas.size());
  for (auto& p : pending) {
    for (const auto& score : p.get()) scores.push_back(score);
  }
  return scores;
}

}  // namespace starling::lab

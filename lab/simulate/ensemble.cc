#include "lab/simulate/ensemble.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <future>

namespace starling::lab {
namespace {

constexpr std::size_t kBlock = 4096;  // floats whose sums fit the cache
constexpr std::size_t kParts = 64;    // tasks that compute the mean, at most

}  // namespace

Ensemble::Ensemble(std::vector<std::unique_ptr<training::Worker>> workers, const models::Plan& plan,
                   std::span<const float> first, ThreadPool& pool)
    : workers_(std::move(workers)),
      arena_(plan.layout.arena_size()),
      mean_(plan.layout.arena_size()),
      losses_(workers_.size()),
      smoothed_(workers_.size()),
      pool_(pool) {
  arena_.write(0, first);
}

bool Ensemble::step(double rate_factor) {
  std::vector<std::future<double>> computing;
  for (auto& worker : workers_)
    computing.push_back(pool_.submit([&] { return worker->compute(arena_.data()); }));
  bool finite = true;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    losses_[i] = computing[i].get();
    finite = finite && std::isfinite(losses_[i]);
  }
  if (!finite) return false;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    smoothed_[i] = steps_ == 0 ? losses_[i] : 0.95 * smoothed_[i] + 0.05 * losses_[i];
  ++steps_;
  average();
  workers_.front()->replace_gradient(mean_);
  workers_.front()->apply(arena_, rate_factor);
  return true;
}

// Each float's mean is summed in the order of the peers, so the number of threads changes nothing.
void Ensemble::average() {
  Gradients gradients;
  for (auto& worker : workers_) gradients.push_back(worker->gradient());
  const std::size_t part = std::max(kBlock, (mean_.size() + kParts - 1) / kParts);
  std::vector<std::future<void>> averaging;
  for (std::size_t begin = 0; begin < mean_.size(); begin += part) {
    const std::size_t end = std::min(begin + part, mean_.size());
    averaging.push_back(pool_.submit([&, begin, end] { average(gradients, begin, end); }));
  }
  for (auto& part_done : averaging) part_done.get();
}

void Ensemble::average(const Gradients& gradients, std::size_t begin, std::size_t end) {
  std::array<double, kBlock> sums;
  for (std::size_t at = begin; at < end; at += kBlock) {
    const std::size_t count = std::min(kBlock, end - at);
    std::fill_n(sums.begin(), count, 0.0);
    for (const auto& gradient : gradients) {
      for (std::size_t k = 0; k < count; ++k) sums[k] += static_cast<double>(gradient[at + k]);
    }
    for (std::size_t k = 0; k < count; ++k)
      mean_[at + k] = static_cast<float>(sums[k] / static_cast<double>(gradients.size()));
  }
}

}  // namespace starling::lab

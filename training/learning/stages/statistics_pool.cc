#include "training/learning/stages/statistics_pool.h"

#include <algorithm>

#include "base/check.h"

namespace starling::training {

StatisticsPool::StatisticsPool(const models::Plan& plan, const models::LayerInfo& layer, int samples)
    : values_(static_cast<double>(samples) * layer.input.height * layer.input.width) {
  const auto statistics = models::running_statistics(layer);
  STARLING_CHECK(statistics.has_value());
  const auto& tensors = plan.layout.tensors();
  mean_ = tensors[statistics->mean].offset;
  variance_ = tensors[statistics->variance].offset;
  channels_ = tensors[statistics->mean].size;
  momentum_ = statistics->momentum;
  clear();
}

void StatisticsPool::clear() {
  means_.assign(channels_, 0);
  squares_.assign(channels_, 0);
  variances_.assign(channels_, 0);
}

void StatisticsPool::add(const float* gradient) {
  for (std::size_t c = 0; c < channels_; ++c) {
    const auto mean = static_cast<double>(gradient[mean_ + c]);
    means_[c] += mean;
    squares_[c] += mean * mean;
    variances_[c] += static_cast<double>(gradient[variance_ + c]);
  }
}

void StatisticsPool::add(const StatisticsPool& other) {
  for (std::size_t c = 0; c < channels_; ++c) {
    means_[c] += other.means_[c];
    squares_[c] += other.squares_[c];
    variances_[c] += other.variances_[c];
  }
}

void StatisticsPool::write(const float* parameters, std::size_t micro_batches, float* gradient) const {
  const auto count = static_cast<double>(micro_batches);
  for (std::size_t c = 0; c < channels_; ++c) {
    const double mean = means_[c] / count;
    gradient[mean_ + c] = static_cast<float>(mean);
    if (momentum_ == 0) continue;
    const auto running = static_cast<double>(parameters[variance_ + c]);
    // Sums of squares around each micro-batch's mean, and of these means around their own.
    const double within = (values_ - 1) * (variances_[c] / momentum_ + count * running);
    const double between =
        values_ * std::max(0.0, squares_[c] - count * mean * mean) / (momentum_ * momentum_);
    const double variance = (within + between) / std::max(1.0, count * values_ - 1);
    gradient[variance_ + c] = static_cast<float>(momentum_ * (variance - running));
  }
}

}  // namespace starling::training

#include "training/learning/batches.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace starling::training {

BatchSampler::BatchSampler(std::vector<std::uint32_t> shard, Random random)
    : order_(std::move(shard)),
      random_(random),
      position_(order_.size()),
      random_before_(random),
      position_before_(position_) {
  STARLING_CHECK(!order_.empty());
}

void BatchSampler::next(std::span<std::uint32_t> batch) {
  if (!order_before_.empty()) order_before_ = {};
  random_before_ = random_;
  position_before_ = position_;
  for (auto& index : batch) {
    if (position_ == order_.size()) {
      if (order_before_.empty()) order_before_ = order_;
      random_.shuffle(std::span(order_));
      position_ = 0;
    }
    index = order_[position_++];
  }
}

Cursor BatchSampler::cursor_before() const {
  return {order_before_.empty() ? order_ : order_before_, position_before_, state_of(random_before_)};
}

Status BatchSampler::set(Cursor cursor) {
  if (cursor.order.size() != order_.size() || cursor.position > order_.size()) {
    return Error{"it was in a shard of " + std::to_string(cursor.order.size()) +
                 " samples, but this shard has " + std::to_string(order_.size())};
  }
  const auto sorted = [](std::vector<std::uint32_t> indices) {
    std::sort(indices.begin(), indices.end());
    return indices;
  };
  if (sorted(cursor.order) != sorted(order_)) return Error{"it was in a shard of other samples"};
  order_before_ = {};
  order_ = std::move(cursor.order);
  position_ = position_before_ = cursor.position;
  random_ = random_before_ = random_of(cursor.random);
  return Done{};
}

void Batches::draw(Feed& feed, std::size_t lane) {
  if (augmenter_) images_before_ = state_of(augmenter_->random());
  sampler_.next(indices_);
  ++draws_;
  under_way_ = true;
  feed.choose(lane, indices_, augmenter_ ? &*augmenter_ : nullptr);
}

void Batches::save(WorkerState& state) const {
  state.cursor = under_way_ ? sampler_.cursor_before() : sampler_.cursor();
  if (augmenter_) state.images = under_way_ ? *images_before_ : state_of(augmenter_->random());
  state.draws = draws_ - (under_way_ ? 1 : 0);
}

Status Batches::restore(const WorkerState& state) {
  if (Status set = sampler_.set(state.cursor); !set) return set;
  if (augmenter_ && state.images) augmenter_->set_random(random_of(*state.images));
  draws_ = state.draws;
  under_way_ = false;
  return Done{};
}

}  // namespace starling::training

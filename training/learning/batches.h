// The batches of one worker: which samples of its shard come next, and how they are changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "training/learning/augment.h"
#include "training/learning/feed.h"
#include "training/runs/records/peer_state.h"

namespace starling::training {

// Endless batches of indices into a shard, in a new order for every epoch. Batches may span two epochs.
class BatchSampler {
 public:
  BatchSampler(std::vector<std::uint32_t> shard, Random random);  // REQUIRES: shard is not empty
  void next(std::span<std::uint32_t> batch);

  Cursor cursor() const { return {order_, position_, state_of(random_)}; }
  Cursor cursor_before() const;  // before the last next()
  // Continues from there. Error, and no change, if the cursor is of another shard.
  Status set(Cursor cursor);

 private:
  std::vector<std::uint32_t> order_;
  Random random_;
  std::size_t position_ = 0;
  // Before the last batch; the order only if the batch changed it.
  std::vector<std::uint32_t> order_before_;
  Random random_before_;
  std::size_t position_before_ = 0;
};

class Batches {
 public:
  // `augmenter` crops and flips images, or shifts windows of a text, at random; nullopt: nothing changes.
  Batches(BatchSampler sampler, std::size_t size, std::optional<Augmenter> augmenter)
      : sampler_(std::move(sampler)), augmenter_(std::move(augmenter)), indices_(size) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(indices_.size()); }
  std::uint64_t drawn() const { return draws_; }

  // Draws the next batch and chooses it in a lane of the feed. The batch is under way until landed().
  void draw(Feed& feed, std::size_t lane);
  void landed() { under_way_ = false; }

  // The batches' part of a worker's state. A batch under way counts as not drawn.
  void save(WorkerState& state) const;
  // Continues from a saved state. Error, and no change, if it is of another shard.
  Status restore(const WorkerState& state);

 private:
  BatchSampler sampler_;
  std::optional<Augmenter> augmenter_;
  std::vector<std::uint32_t> indices_;
  std::optional<RandomState> images_before_;  // the last batch
  std::uint64_t draws_ = 0;                   // including those before a restart
  bool under_way_ = false;
};

}  // namespace starling::training

// Brings batches of a data set to the memory that a network reads. The host assembles them in place. A device
// that keeps the samples receives their numbers, other devices a copy of the host's batch. While a device
// works on one batch the next one can be chosen: there are several lanes, each with its own memory, used in
// turn.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "training/learning/augment.h"

namespace starling::training {

// The samples in the back end's memory; null if it does not keep them. `backend` outlives them.
std::shared_ptr<const kernels::Samples> keep(const datasets::Dataset& data, const kernels::Backend& backend);

class Feed {
 public:
  // `backend` and `data` outlive it. `kept`: of the same data, or null.
  Feed(const kernels::Backend& backend, const datasets::Dataset& data,
       std::shared_ptr<const kernels::Samples> kept, std::size_t batch);

  std::size_t lanes() const { return lanes_.size(); }

  // On the host: chooses these samples for the lane, changed by `augmenter` unless it is null. The rest of a
  // smaller batch is undefined. REQUIRES: at most a batch.
  void choose(std::size_t lane, std::span<const std::uint32_t> indices, Augmenter* augmenter = nullptr);
  // On the device: brings the chosen samples to inputs() and labels(). REQUIRES: the lane is not used until
  // that is done.
  void bring(std::size_t lane, kernels::Queue& queue);

  const float* inputs() const { return inputs_.data(); }  // [batch, channels, height, width]
  // [batch], or [batch, context] for a text.
  const std::int32_t* labels() const { return reinterpret_cast<const std::int32_t*>(labels_.data()); }

 private:
  // Staging memory for a device: choices if it keeps the samples, else a batch.
  struct Lane {
    kernels::Buffer choices, inputs, labels;
  };

  static std::int32_t* labels_in(kernels::Buffer& buffer) {
    return reinterpret_cast<std::int32_t*>(buffer.data());
  }

  const datasets::Dataset& data_;
  std::shared_ptr<const kernels::Samples> kept_;
  std::size_t batch_;
  bool on_host_;
  std::vector<std::uint32_t> shifts_;  // of windows of a text
  kernels::Buffer inputs_, labels_;
  std::vector<Lane> lanes_;
};

}  // namespace starling::training

// Brings batches of a data set to where a network reads them. On the host they are put together in place. A
// device that keeps the samples is told which come next; to one that does not, what the host put together is
// copied. While a device works at one batch, the next may be chosen: there are several lanes for that, each
// with memory of its own, used in turn.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "datasets/dataset.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "training/replica/augment.h"

namespace starling::training {

// The samples as a back end may keep them; null where it does not. `backend` outlives them.
std::shared_ptr<const kernels::Samples> keep(const datasets::Dataset& data, const kernels::Backend& backend);

class Feed {
 public:
  // `backend` and `data` outlive it. `kept`: of the same data, or null.
  Feed(const kernels::Backend& backend, const datasets::Dataset& data,
       std::shared_ptr<const kernels::Samples> kept, std::size_t batch);

  std::size_t lanes() const { return lanes_.size(); }

  // On the host: chooses these samples for the lane, changed by `augmenter` unless it is null. REQUIRES: as
  // many as a batch has, or fewer: then the rest of the batch is anything.
  void choose(std::size_t lane, std::span<const std::uint32_t> indices, Augmenter* augmenter = nullptr);
  // On the device: brings what was chosen to inputs() and labels(). REQUIRES: the lane is left alone until that
  // is done.
  void bring(std::size_t lane, kernels::Queue& queue);

  const float* inputs() const { return inputs_.data(); }  // [batch, channels, height, width]
  const std::int32_t* labels() const { return reinterpret_cast<const std::int32_t*>(labels_.data()); }

 private:
  // Of a device, in memory from which it copies: choices where it keeps the samples, else a batch.
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
  kernels::Buffer inputs_, labels_;
  std::vector<Lane> lanes_;
};

}  // namespace starling::training

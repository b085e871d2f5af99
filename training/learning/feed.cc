#include "training/learning/feed.h"

#include "base/check.h"

namespace starling::training {
namespace {

constexpr std::size_t kFeedLanes = 2;  // of a device: one that it works at, one that is filled

}  // namespace

std::shared_ptr<const kernels::Samples> keep(const datasets::Dataset& data, const kernels::Backend& backend) {
  if (data.is_text()) return nullptr;  // a window is cheap to copy
  std::vector<float> scale, shift;
  for (int c = 0; c < data.shape.channels; ++c) {
    const auto n = data.normalization.empty() ? datasets::Normalization{}
                                              : data.normalization[static_cast<std::size_t>(c)];
    scale.push_back(1.0F / ((data.has_floats() ? 1.0F : 255.0F) * n.deviation));
    shift.push_back(-n.mean / n.deviation);
  }
  kernels::SampleView view;
  view.shape = {static_cast<int>(data.size()), data.shape.channels, data.shape.height, data.shape.width};
  view.bytes = data.has_floats() ? nullptr : data.images.data();
  view.floats = data.has_floats() ? data.features.data() : nullptr;
  view.labels = data.labels.data();
  view.scale = scale;
  view.shift = shift;
  return backend.keep(view);
}

Feed::Feed(const kernels::Backend& backend, const datasets::Dataset& data,
           std::shared_ptr<const kernels::Samples> kept, std::size_t batch)
    : data_(data),
      kept_(std::move(kept)),
      batch_(batch),
      on_host_(backend.memory().on_host()),
      inputs_(batch * static_cast<std::size_t>(data.shape.size()), backend.memory()),
      labels_(batch * data.labels_per_sample(), backend.memory()),
      lanes_(on_host_ ? 1 : kFeedLanes) {
  if (on_host_) return;
  for (Lane& lane : lanes_) {
    if (kept_) {
      static_assert(sizeof(kernels::Choice) % sizeof(float) == 0);
      lane.choices = kernels::Buffer(batch * sizeof(kernels::Choice) / sizeof(float), backend.staging());
    } else {
      lane.inputs = kernels::Buffer(inputs_.size(), backend.staging());
      lane.labels = kernels::Buffer(labels_.size(), backend.staging());
    }
  }
}

void Feed::choose(std::size_t lane, std::span<const std::uint32_t> indices, Augmenter* augmenter) {
  STARLING_CHECK(lane < lanes_.size() && indices.size() <= batch_);
  if (kept_) {
    auto* choices = reinterpret_cast<kernels::Choice*>(lanes_[lane].choices.data());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      STARLING_CHECK(indices[i] < data_.size());
      const auto change = augmenter != nullptr ? augmenter->draw() : Augmenter::Change{};
      choices[i] = {indices[i], static_cast<std::int16_t>(change.down),
                    static_cast<std::int16_t>(change.right), change.mirrored ? 1 : 0};
    }
    return;
  }
  float* inputs = on_host_ ? inputs_.data() : lanes_[lane].inputs.data();
  std::int32_t* labels = labels_in(on_host_ ? labels_ : lanes_[lane].labels);
  if (data_.is_text() && augmenter != nullptr) {
    shifts_.clear();
    for (std::size_t i = 0; i < indices.size(); ++i) shifts_.push_back(augmenter->draw().later);
    return data_.gather_shifted(indices, shifts_, inputs, labels);
  }
  data_.gather(indices, inputs, labels);
  if (augmenter != nullptr) augmenter->change(inputs, indices.size());
}

void Feed::bring(std::size_t lane, kernels::Queue& queue) {
  if (on_host_) return;
  if (kept_) {
    const auto* choices = reinterpret_cast<const kernels::Choice*>(lanes_[lane].choices.data());
    return kept_->gather(queue, choices, static_cast<int>(batch_), inputs_.data(), labels_in(labels_));
  }
  queue.upload(lanes_[lane].inputs.data(), inputs_.data(), inputs_.bytes());
  queue.upload(lanes_[lane].labels.data(), labels_.data(), labels_.bytes());
}

}  // namespace starling::training

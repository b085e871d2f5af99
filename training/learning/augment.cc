#include "training/learning/augment.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace starling::training {

Result<Augmentation> make_augmentation(const Experiment& experiment, const datasets::Dataset& data) {
  const datasets::ImageShape& shape = data.shape;
  const Augmentation augmentation{experiment.training.crop, experiment.training.flip,
                                  data.is_text() && experiment.data.windows == "random"};
  if (!data.is_text() && experiment.data.windows != "random")
    return Error{"data.windows: this data is not a text; only a text is divided into windows"};
  if (augmentation.crop == 0 && !augmentation.flip) return augmentation;
  const std::string key = augmentation.crop > 0 ? "training.crop" : "training.flip";
  if (data.is_text()) return Error{key + ": this data is a text; only images can be cropped and flipped"};
  if (shape.height == 1 && shape.width == 1) {
    return Error{key + ": the samples of this data are vectors of " + std::to_string(shape.channels) +
                 " numbers; only images can be cropped and flipped"};
  }
  const auto most = static_cast<std::uint32_t>(std::min(shape.height, shape.width) / 2);
  if (augmentation.crop > most) {
    return Error{key + ": a padding of " + std::to_string(augmentation.crop) +
                 " pixels is more than half of an image of " + std::to_string(shape.height) + "x" +
                 std::to_string(shape.width) + "; expected at most " + std::to_string(most)};
  }
  return augmentation;
}

Augmenter::Augmenter(const datasets::Dataset& data, Augmentation augmentation, Random random)
    : augmentation_(augmentation),
      height_(static_cast<std::size_t>(data.shape.height)),
      width_(static_cast<std::size_t>(data.shape.width)),
      context_(data.context),
      black_(static_cast<std::size_t>(data.shape.channels)),
      plane_(height_ * width_),
      random_(random) {
  STARLING_CHECK(2 * std::size_t{augmentation.crop} <= std::min(height_, width_));
  for (std::size_t c = 0; c < data.normalization.size(); ++c)
    black_[c] = -data.normalization[c].mean / data.normalization[c].deviation;
}

Augmenter::Change Augmenter::draw() {
  const auto crop = static_cast<int>(augmentation_.crop);
  Change change;
  if (crop > 0) {
    change.down = static_cast<int>(random_.below(2 * augmentation_.crop + 1)) - crop;
    change.right = static_cast<int>(random_.below(2 * augmentation_.crop + 1)) - crop;
  }
  change.mirrored = augmentation_.flip && random_.below(2) == 1;
  if (augmentation_.shift) change.later = static_cast<std::uint32_t>(random_.below(context_));
  return change;
}

void Augmenter::change(float* images, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Change change = draw();
    for (const float black : black_) {
      change_plane(images, change, black);
      images += plane_.size();
    }
  }
}

void Augmenter::change_plane(float* plane, const Change& change, float black) {
  if (change.down != 0 || change.right != 0) {
    std::copy_n(plane, plane_.size(), plane_.data());
    const auto before = static_cast<std::size_t>(std::max(-change.right, 0)),
               skipped = static_cast<std::size_t>(std::max(change.right, 0));
    const std::size_t kept = width_ - before - skipped;
    for (std::size_t y = 0; y < height_; ++y) {
      float* const row = plane + y * width_;
      const auto from = static_cast<std::ptrdiff_t>(y) + change.down;
      if (from < 0 || from >= static_cast<std::ptrdiff_t>(height_)) {
        std::fill_n(row, width_, black);
        continue;
      }
      std::fill_n(row, before, black);
      std::copy_n(plane_.data() + static_cast<std::size_t>(from) * width_ + skipped, kept, row + before);
      std::fill_n(row + before + kept, skipped, black);
    }
  }
  if (!change.mirrored) return;
  for (std::size_t y = 0; y < height_; ++y) std::reverse(plane + y * width_, plane + (y + 1) * width_);
}

}  // namespace starling::training

#include "training/augment.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace starling::training {

Result<Augmentation> make_augmentation(const Experiment& experiment, const datasets::ImageShape& shape) {
  const Augmentation augmentation{experiment.crop, experiment.flip};
  if (!augmentation.any()) return augmentation;
  const std::string key = augmentation.crop > 0 ? "training.crop" : "training.flip";
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
      black_(static_cast<std::size_t>(data.shape.channels)),
      plane_(height_ * width_),
      random_(random) {
  STARLING_CHECK(2 * std::size_t{augmentation.crop} <= std::min(height_, width_));
  for (std::size_t c = 0; c < data.normalization.size(); ++c)
    black_[c] = -data.normalization[c].mean / data.normalization[c].deviation;
}

void Augmenter::change(float* images, std::size_t count) {
  const std::size_t crop = augmentation_.crop;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t down = crop,
                right = crop;  // where the part begins in the padded image; `crop`: where the image does
    if (crop > 0) {
      down = random_.below(2 * crop + 1);
      right = random_.below(2 * crop + 1);
    }
    const bool mirrored = augmentation_.flip && random_.below(2) == 1;
    for (const float black : black_) {
      change_plane(images, down, right, mirrored, black);
      images += plane_.size();
    }
  }
}

void Augmenter::change_plane(float* plane, std::size_t down, std::size_t right, bool mirrored, float black) {
  const std::size_t crop = augmentation_.crop;
  if (down != crop || right != crop) {
    std::copy_n(plane, plane_.size(), plane_.data());
    const std::size_t before = crop - std::min(crop, right), skipped = right - std::min(crop, right);
    const std::size_t kept = width_ - before - skipped;
    for (std::size_t y = 0; y < height_; ++y) {
      float* const row = plane + y * width_;
      if (y + down < crop || y + down - crop >= height_) {
        std::fill_n(row, width_, black);
        continue;
      }
      std::fill_n(row, before, black);
      std::copy_n(plane_.data() + (y + down - crop) * width_ + skipped, kept, row + before);
      std::fill_n(row + before + kept, skipped, black);
    }
  }
  if (!mirrored) return;
  for (std::size_t y = 0; y < height_; ++y) std::reverse(plane + y * width_, plane + (y + 1) * width_);
}

}  // namespace starling::training

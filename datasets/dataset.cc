#include "datasets/dataset.h"

#include "base/processor.h"

namespace starling::datasets {
namespace {

STARLING_FOR_PROCESSORS void normalize(const std::uint8_t* from, std::size_t pixels, float scale,
                                       float offset, float* to) {
  for (std::size_t p = 0; p < pixels; ++p) to[p] = static_cast<float>(from[p]) * scale + offset;
}

STARLING_FOR_PROCESSORS void normalize(const float* from, std::size_t count, Normalization n, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = (from[i] - n.mean) / n.deviation;
}

// A row in which every value is a channel.
STARLING_FOR_PROCESSORS void normalize(const float* from, std::size_t count, const Normalization* n,
                                       float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = (from[i] - n[i].mean) / n[i].deviation;
}

}  // namespace

std::size_t Dataset::memory_bytes() const {
  return images.size() + features.size() * sizeof(float) + labels.size();
}

void Dataset::gather(std::span<const std::uint32_t> indices, float* images_out,
                     std::int32_t* labels_out) const {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t plane = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t index = indices[i];
    STARLING_CHECK(index < size());
    labels_out[i] = labels[index];
    if (has_floats() && plane == 1 && !normalization.empty()) {
      normalize(features.data() + index * channels, channels, normalization.data(),
                images_out + i * channels);
      continue;
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const Normalization n = normalization.empty() ? Normalization{} : normalization[c];
      const std::size_t from = (index * channels + c) * plane;
      float* to = images_out + (i * channels + c) * plane;
      if (has_floats()) {
        normalize(features.data() + from, plane, n, to);
      } else {
        normalize(images.data() + from, plane, 1.0f / (255.0f * n.deviation), -n.mean / n.deviation, to);
      }
    }
  }
}

}  // namespace starling::datasets

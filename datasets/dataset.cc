#include "datasets/dataset.h"

#include <algorithm>
#include <cmath>

#include "base/processor.h"
#include "datasets/statistics.h"

namespace starling::datasets {
namespace {

STARLING_FOR_PROCESSORS void normalize(const std::uint8_t* from, std::size_t pixels, float scale,
                                       float offset, float* to) {
  for (std::size_t p = 0; p < pixels; ++p) to[p] = static_cast<float>(from[p]) * scale + offset;
}

}  // namespace

void Dataset::gather(std::span<const std::uint32_t> indices, float* images_out,
                     std::int32_t* labels_out) const {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t plane = static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t index = indices[i];
    STARLING_CHECK(index < size());
    for (std::size_t c = 0; c < channels; ++c) {
      const Normalization n = normalization.empty() ? Normalization{} : normalization[c];
      normalize(images.data() + (index * channels + c) * plane, plane, 1.0f / (255.0f * n.deviation),
                -n.mean / n.deviation, images_out + (i * channels + c) * plane);
    }
    labels_out[i] = labels[index];
  }
}

std::vector<Normalization> measure(const Dataset& set) {
  const auto channels = static_cast<std::size_t>(set.shape.channels);
  const std::size_t plane = static_cast<std::size_t>(set.shape.height) * static_cast<std::size_t>(set.shape.width);
  std::vector<Normalization> result(channels);
  if (set.size() == 0) return result;
  for (std::size_t c = 0; c < channels; ++c) {
    std::uint64_t sum = 0, squares = 0;
    for (std::size_t k = 0; k < set.size(); ++k) {
      const auto image = std::span(set.images).subspan((k * channels + c) * plane, plane);
      constexpr std::size_t kRun = 1 << 14;  // 2^14 * 255^2 < 2^32, so that the inner sums stay 32 bits wide
      for (std::size_t begin = 0; begin < plane; begin += kRun) {
        std::uint32_t run_sum = 0, run_squares = 0;
        for (const std::uint32_t p : image.subspan(begin, std::min(kRun, plane - begin))) {
          run_sum += p;
          run_squares += p * p;
        }
        sum += run_sum;
        squares += run_squares;
      }
    }
    const double n = static_cast<double>(set.size() * plane);
    const double mean = static_cast<double>(sum) / n;
    const double variance = std::max(0.0, static_cast<double>(squares) / n - mean * mean);
    result[c].mean = static_cast<float>(mean / 255);
    // All pixels alike: nothing to scale by.
    result[c].deviation = variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0f;
  }
  return result;
}

void normalize(DataPair& pair) {
  pair.train.normalization = pair.test.normalization = measure(pair.train);
}

}  // namespace starling::datasets

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
  const std::size_t pixels = static_cast<std::size_t>(shape.size());
  const float scale = 1.0f / (255.0f * deviation);
  const float offset = -mean / deviation;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t index = indices[i];
    STARLING_CHECK(index < size());
    normalize(images.data() + index * pixels, pixels, scale, offset, images_out + i * pixels);
    labels_out[i] = labels[index];
  }
}

Normalization measure(std::span<const std::uint8_t> pixels) {
  if (pixels.empty()) return {};
  std::uint64_t sum = 0, squares = 0;
  constexpr std::size_t kRun = 1 << 14;  // 2^14 * 255^2 < 2^32, so that the inner sums stay 32 bits wide
  for (std::size_t begin = 0; begin < pixels.size(); begin += kRun) {
    std::uint32_t run_sum = 0, run_squares = 0;
    for (const std::uint32_t p : pixels.subspan(begin, std::min(kRun, pixels.size() - begin))) {
      run_sum += p;
      run_squares += p * p;
    }
    sum += run_sum;
    squares += run_squares;
  }
  const double n = static_cast<double>(pixels.size());
  const double mean = static_cast<double>(sum) / n;
  const double variance = std::max(0.0, static_cast<double>(squares) / n - mean * mean);
  Normalization result;
  result.mean = static_cast<float>(mean / 255);
  // All pixels alike: nothing to scale by.
  result.deviation = variance > 0 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0f;
  return result;
}

void normalize(DataPair& pair) {
  const Normalization n = measure(pair.train.images);
  for (Dataset* set : {&pair.train, &pair.test}) {
    set->mean = n.mean;
    set->deviation = n.deviation;
  }
}

}  // namespace starling::datasets

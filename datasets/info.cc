#include "datasets/info.h"

#include <string_view>

namespace starling::datasets {
namespace {

std::vector<std::size_t> count_classes(const Dataset& set, int classes) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(classes));
  for (const std::uint8_t label : set.labels) ++counts.at(label);
  return counts;
}

}  // namespace

Info describe(const DataPair& pair) {
  Info info;
  info.name = pair.name;
  info.shape = pair.train.shape;
  info.classes = pair.train.classes;
  info.train_samples = pair.train.size();
  info.test_samples = pair.test.size();
  info.train_per_class = count_classes(pair.train, info.classes);
  info.test_per_class = count_classes(pair.test, info.classes);
  info.normalization = pair.train.normalization;
  for (const Dataset* set : {&pair.train, &pair.test})
    info.memory_bytes += set->images.size() + set->labels.size();
  return info;
}

std::string draw_sample(const Dataset& set, std::size_t index) {
  STARLING_CHECK(index < set.size());
  constexpr std::string_view kShades = " .:-=+*#%@";
  const auto channels = static_cast<std::size_t>(set.shape.channels);
  const auto height = static_cast<std::size_t>(set.shape.height),
             width = static_cast<std::size_t>(set.shape.width);
  const std::uint8_t* image = set.images.data() + index * channels * height * width;
  std::string text;
  text.reserve(height * (2 * width + 1));
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      std::size_t sum = 0;
      for (std::size_t c = 0; c < channels; ++c) sum += image[(c * height + y) * width + x];
      text.append(2, kShades[sum / channels * kShades.size() / 256]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace starling::datasets

// What a loaded data set holds, for `starling data info`, and one of its images drawn for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace starling::datasets {

struct Info {
  std::string name;
  ImageShape shape;
  int classes = 0;
  std::size_t train_samples = 0, test_samples = 0;
  std::vector<std::size_t> train_per_class, test_per_class;  // [classes]
  std::vector<Normalization> normalization;                  // [channels]
  std::size_t memory_bytes = 0;                              // both sets
};

Info describe(const DataPair& pair);

// The image in characters from ' ' (0) to '@' (255), two columns a pixel (a character is twice as high as it
// is wide), one line a row, each ended by a newline. Channels are averaged. REQUIRES: index < set.size().
std::string draw_sample(const Dataset& set, std::size_t index);

}  // namespace starling::datasets

// The mean and deviation by which a data set's bytes become floats. Readers call normalize() once, after
// loading, so that training and test images are scaled alike, by what the training images say.
#pragma once

#include <cstdint>
#include <span>

#include "datasets/dataset.h"

namespace starling::datasets {

struct Normalization {
  float mean = 0, deviation = 1;  // of pixel / 255
};

// Exact integer sums, then one rounding. All pixels alike (or none): deviation 1.
Normalization measure(std::span<const std::uint8_t> pixels);

// Gives both sets of the pair the training images' mean and deviation.
void normalize(DataPair& pair);

}  // namespace starling::datasets

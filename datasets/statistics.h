// The means and deviations by which a data set's bytes become floats. Readers call normalize() once, after loading, so
// that training and test images are scaled alike, by what the training images say.
#pragma once

#include <vector>

#include "datasets/dataset.h"

namespace starling::datasets {

// Of every channel. Exact integer sums, then one rounding. All pixels alike (or none): deviation 1.
std::vector<Normalization> measure(const Dataset& set);

// Gives both sets of the pair what the training images say.
void normalize(DataPair& pair);

}  // namespace starling::datasets

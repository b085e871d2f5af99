// The means and deviations by which a data set's values become what a model sees. Readers call join() once,
// at the end, so that training and test samples are scaled alike, by what the training samples say.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

// Of every channel. Bytes: exact integer sums, then one rounding. Floats: sums in double. All values alike
// (or none): deviation 1.
std::vector<Normalization> measure(const Dataset& set);

// Gives both sets of the pair what the training samples say.
void normalize(DataPair& pair);

// The pair of that name, normalized, its test set with the classes of the training set. An Error where a test
// label is greater than every training label: it says that this is so in `folder`.
Result<DataPair> join(std::string name, const std::string& folder, Dataset train, Dataset test);

}  // namespace starling::datasets

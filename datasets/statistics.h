// The means and deviations by which a data set's values are normalized for a model. Readers call join() once,
// at the end, so that training and test samples are scaled alike, by the statistics of the training samples.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

// One per channel. Bytes: exact integer sums, then one rounding. Floats: sums in double. Where all values are
// equal, or there are none, the deviation is 1.
std::vector<Normalization> measure(const Dataset& set);

// Sets both sets' normalization to that of the training samples.
void normalize(DataPair& pair);

// The pair of this name, normalized; its test set has the classes of the training set. An Error that names
// `folder` where a test label is greater than every training label.
Result<DataPair> join(std::string name, const std::string& folder, Dataset train, Dataset test);

}  // namespace starling::datasets

// What a run is made from beside its settings, by content (training/runs/records/record.h).
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "datasets/dataset.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/record.h"

namespace starling::lab {

// The hashes of the data, with all samples and labels, and of the file with the first parameters, by the
// settings that name them. An Error if that file cannot be read.
Result<std::map<std::string, std::string>> contents_of(const training::Experiment& experiment,
                                                       const datasets::DataPair& data);

// The contents, this program and this processor.
Result<training::MadeFrom> made_from(const training::Experiment& experiment, const datasets::DataPair& data);

// "the data 'my.csv' have changed since", for the first content in which the two differ; empty: none.
std::string changed_content(const training::Experiment& experiment,
                            const std::map<std::string, std::string>& before,
                            const std::map<std::string, std::string>& now);

}  // namespace starling::lab

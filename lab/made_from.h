// What a run is made from beside its settings, by content (training/runs/records/record.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "datasets/dataset.h"
#include "training/runs/experiment/experiment.h"
#include "training/runs/records/record.h"

namespace starling::lab {

// The hashes of the data, with all samples, labels and tokens' texts, of the file with the first parameters
// and of the own data of peers (by data.own_data; null: the run's), by the settings that name them. An Error
// if that file cannot be read.
using OwnData = std::map<std::string, std::shared_ptr<const datasets::Dataset>>;
Result<std::map<std::string, std::string>> contents_of(const training::Experiment& experiment,
                                                       const datasets::DataPair& data, const OwnData& own);
// Adds those of the [[peer]]s' own data: "peer.1.own_data".
void add_own_contents(const training::Experiment& experiment, const OwnData& own,
                      std::map<std::string, std::string>& contents);

// The contents, this program and this processor.
training::MadeFrom made_from(std::map<std::string, std::string> contents);
Result<training::MadeFrom> made_from(const training::Experiment& experiment, const datasets::DataPair& data,
                                     const OwnData& own = {});

// The contents by the names that the experiment gives them, for its file.
std::map<std::string, std::string> by_names(const training::Experiment& experiment,
                                            const std::map<std::string, std::string>& contents);

// "the data 'my.csv' have changed since", for the first content in which the two differ; empty: none.
std::string changed_content(const training::Experiment& experiment,
                            const std::map<std::string, std::string>& before,
                            const std::map<std::string, std::string>& now);

// The experiment without the names of files whose contents it has: of a network's and of a graph's. What
// simulated peers send has their length, and a name must not change the times.
training::Experiment without_names(training::Experiment experiment);

// A text that simulations have in common if they differ only in their seeds, in settings without effect, and
// in names of equal contents.
std::string kind_of_simulation(const training::Experiment& experiment, const training::Summary& summary);

}  // namespace starling::lab

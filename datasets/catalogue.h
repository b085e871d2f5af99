// The data sets that Starling knows by name, each with a line of description, for `starling data list` and
// for the sentences that say what would have been right. load() and data_name() (datasets/dataset.h) look
// here.
#pragma once

#include <span>

namespace starling::datasets {

struct CatalogueEntry {
  const char* name;
  const char* description;
  const char* found;  // where the data comes from
};

std::span<const CatalogueEntry> catalogue();

}  // namespace starling::datasets

// The data sets that Starling knows by name, and the forms in which it reads others, each with a line of
// description, for `starling data list` and for the sentences that say what would have been right. load() and
// data_name() (datasets/dataset.h) look here.
#pragma once

#include <span>

namespace starling::datasets {

struct CatalogueEntry {
  const char* name;
  const char* description;
  const char* found;  // where the data comes from
};

std::span<const CatalogueEntry> catalogue();

// What a path may lead to. Every file may be gzipped, with ".gz" behind its name.
struct PathForm {
  const char* what;   // "a folder with the four IDX files"
  const char* files;  // their names, or what is in them
};

std::span<const PathForm> path_forms();

}  // namespace starling::datasets

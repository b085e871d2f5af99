// The data sets that Starling knows by name, and the table of formats in which it reads others. load() and
// data_name() (datasets/dataset.h), `starling data list` and error messages read both tables.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "datasets/dataset.h"

namespace starling::datasets {

struct CatalogueEntry {
  const char* name;
  const char* description;
  const char* found;  // where the data comes from
};

std::span<const CatalogueEntry> catalogue();

// A format that a path may hold. Every file may be gzipped, with ".gz" behind its name.
struct Format {
  const char* what;   // "a folder with the four IDX files"
  const char* files;  // their names, or their content
  bool takes_label;   // ":label=COLUMN" behind the path chooses the column of the labels
  // Whether a path has this format, judged by the names of its files. `folder`: the path is one.
  bool (*matches)(const std::string& path, bool folder);
  // `label`: empty for the usual column.
  Result<DataPair> (*read)(const std::string& path, const std::string& label);
};

std::span<const Format> formats();
// The format of this path; null: none.
const Format* format_of(const std::string& path);

}  // namespace starling::datasets

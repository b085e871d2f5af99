// The data sets with a name, and the table of formats in which others are read. load() and data_name()
// (datasets/dataset.h), `starling data list`, `starling doctor` and error messages read both tables.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "datasets/dataset.h"
#include "datasets/path_options.h"

namespace starling::datasets {

struct CatalogueEntry {
  const char* name;
  const char* description;
  const char* found;  // where the data comes from
};

std::span<const CatalogueEntry> catalogue();

// A format in which a path may be. Every file may be gzipped and then has ".gz" after its name.
struct DataFormat {
  const char* what;   // "a folder with the four IDX files"
  const char* files;  // their names, or their content
  // The keys of the options that a path of this format takes (path_options.h), separated by spaces.
  const char* options;
  // Whether a path has this format, judged by the names of its files. `folder`: the path is a folder.
  bool (*matches)(const std::string& path, bool folder);
  Result<DataPair> (*read)(const std::string& path, const PathOptions& options, const Given& given);
};

// In the order in which a path is matched.
std::span<const DataFormat> formats();
// The first of these formats that matches the path, or null.
const DataFormat* format_of(const std::string& path, std::span<const DataFormat> known = formats());

// The name itself if it is a path that exists, else the path of this data set or tokenizer in $STARLING_DATA
// (`data_root`).
std::string data_path(const std::string& name, const std::string& data_root);

// load() of datasets/dataset.h with another table of formats.
Result<DataPair> load(const std::string& name_or_path, const std::string& data_root,
                      std::span<const DataFormat> known, const Given& given = {});

}  // namespace starling::datasets

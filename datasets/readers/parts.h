// Reads a folder whose files are named for training and for testing.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "datasets/dataset.h"
#include "datasets/readers/byte_source.h"

namespace starling::datasets {

// `names`: the files of the training part, then as many of the test part. read(paths of a part) returns its
// Dataset. The test part is read first, because errors of a small file appear sooner; with `given.only_test`
// it is the only one.
template <class Read>
Result<DataPair> read_parts(const std::string& folder, std::span<const char* const> names, const Given& given,
                            Origin origin, Read read) {
  const std::size_t half = names.size() / 2;
  const auto paths = find_files(folder, given.only_test ? names.subspan(half) : names);
  if (!paths) return paths.error();
  for (const char* name : names)
    if (auto path = find_file(folder, name)) origin.files.push_back(std::move(*path));
  Result<Dataset> test = read(std::span(*paths).last(half));
  if (!test) return test.error();
  Dataset train;
  if (!given.only_test) {
    Result<Dataset> all = read(std::span(*paths).first(half));
    if (!all) return all.error();
    train = std::move(*all);
  }
  return join(data_name(folder), folder, std::move(train), std::move(*test), std::move(origin));
}

}  // namespace starling::datasets

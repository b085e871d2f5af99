// Adds a toy data format as docs/EXTENDING.md describes: a reader, a function that recognizes its paths, and
// a row in the table of formats.
#include <algorithm>
#include <string>
#include <vector>

#include "datasets/catalogue.h"
#include "tests/catch.h"
#include "tests/datasets/files.h"

namespace starling::datasets {
namespace {

bool is_toy_file(const std::string& path, bool folder) { return !folder && path.ends_with(".toy"); }

// Two samples of two features; the caller's label goes to the first one.
Result<DataPair> read_toy_file(const std::string& path, const PathOptions& options, const Given&) {
  Dataset set;
  set.shape = {2, 1, 1};
  set.classes = 2;
  set.features = {1, 2, 3, 4};
  set.labels = {static_cast<std::uint8_t>(options.label == "1" ? 1 : 0), 1};
  return join(data_name(path), path, set, set);
}

std::vector<DataFormat> with_toy() {
  std::vector<DataFormat> table(formats().begin(), formats().end());
  table.push_back({"a toy FILE.toy", "anything", "label", is_toy_file, read_toy_file});
  return table;
}

TEST_CASE("a path of a new format is recognized, read and normalized") {
  TemporaryFolder folder;
  const auto table = with_toy();
  const std::string path = folder.write("a.toy", {'x'});
  REQUIRE(format_of(path) == nullptr);
  REQUIRE(format_of(path, table) == &table.back());
  const auto pair = load(path, "", table);
  REQUIRE(pair.ok());
  CHECK(pair->name == "a.toy");
  CHECK(pair->train.labels == std::vector<std::uint8_t>{0, 1});
  CHECK(pair->test.normalization.size() == 2);
  const auto labeled = load(path + ":label=1", "", table);
  REQUIRE(labeled.ok());
  CHECK(labeled->train.labels == std::vector<std::uint8_t>{1, 1});
}

TEST_CASE("the message about an unknown file lists a new format") {
  TemporaryFolder folder;
  const auto table = with_toy();
  const std::string path = folder.write("a.xyz", {'x'});
  REQUIRE(load(path, "").error().message.find("FILE.toy") == std::string::npos);
  CHECK(load(path, "", table).error().message.find("or a toy FILE.toy, plain or .gz") != std::string::npos);
}

}  // namespace
}  // namespace starling::datasets

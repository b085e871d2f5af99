// The fields of summary.json, compared with the list in docs/RESULTS.md.
#include <nlohmann/json.hpp>

#include <sstream>

#include "tests/catch.h"
#include "tests/cli/program.h"

namespace starling::cli_tests {
namespace {

// The names in the first column of the table under "## summary.json", in their order.
std::vector<std::string> documented_fields() {
  std::istringstream lines(read_whole(std::string(STARLING_SOURCE_DIR) + "/docs/RESULTS.md"));
  std::vector<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) inside = line == "## summary.json";
    if (!inside || !line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find(" | "));
    for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
      const std::size_t end = cell.find('`', at + 1);
      names.push_back(cell.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return names;
}

// The same of a summary.
std::vector<std::string> fields_of(const nlohmann::ordered_json& summary) {
  std::vector<std::string> names;
  for (const auto& [name, value] : summary.items()) {
    if (name == "exchanges") {
      for (const auto& [inner, count] : value.items()) names.push_back(name + "." + inner);
    } else if (name == "per_peer") {
      for (const auto& [inner, figure] : value.at(0).items()) names.push_back(name + "[]." + inner);
    } else {
      names.push_back(name);
    }
  }
  return names;
}

TEST_CASE("docs/RESULTS.md lists exactly the fields of summary.json, in their order") {
  const TemporaryFolder folder;
  const Outcome outcome = run({"simulate", "--model", "softmax", "--peers", "2", "--steps", "4", "--topology",
                               "complete", "--out", folder.file("run"), "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::string text = read_whole(folder.file("run/summary.json"));
  CHECK(text == outcome.out);
  CHECK(fields_of(nlohmann::ordered_json::parse(text)) == documented_fields());
  CHECK(text.find("\"spectral_gap\":1.0,") != std::string::npos);
}

}  // namespace
}  // namespace starling::cli_tests

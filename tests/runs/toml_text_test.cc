#include "training/runs/experiment/settings/toml_text.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/training/temporary_folder.h"
#include "training/runs/experiment/experiment_file.h"

namespace starling::training {
namespace {

// A key with this number of dots.
std::string deep_key(int dots) {
  std::string key = "a";
  for (int i = 0; i < dots; ++i) key += ".a";
  return key;
}

}  // namespace

TEST_CASE("an experiment file with a key of 300,000 dots is an error") {
  const TemporaryFolder folder;
  for (const std::string& text :
       std::vector<std::string>{deep_key(300'000) + " = 1\n", "\n[" + deep_key(300'000) + "]\n"}) {
    const std::string path = folder.write("deep.toml", text);
    Experiment experiment;
    const Status status = read_file(experiment, path);
    REQUIRE_FALSE(status.ok());
    CAPTURE(status.error().message);
    REQUIRE(status.error().message.find(path + ":") == 0);
    REQUIRE(status.error().message.find("more than 16 dots") != std::string::npos);
  }
}

}  // namespace starling::training

#include "training/experiment/toml_text.h"

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/training/temporary_folder.h"
#include "training/experiment/experiment_file.h"

namespace starling::training {
namespace {

std::string dotted(int dots, const std::string& part = "a") {
  std::string key = part;
  for (int i = 0; i < dots; ++i) key += "." + part;
  return key;
}

}  // namespace

TEST_CASE("a key with more than sixteen dots is found with its line") {
  REQUIRE(line_of_deep_key(dotted(16) + " = 1") == std::nullopt);
  REQUIRE(line_of_deep_key(dotted(17) + " = 1") == 1);
  REQUIRE(line_of_deep_key("\n\n[" + dotted(17) + "]") == 3);
  REQUIRE(line_of_deep_key("a = { b = 1, " + dotted(17) + " = 1 }") == 1);
  REQUIRE(line_of_deep_key("# a.b.c \"\n" + dotted(17, "\"=\"") + " = 1") == 2);
  REQUIRE(line_of_deep_key("a = \"\"\" \" \\\"\"\" \"\"\"\n" + dotted(17, "'.'") + " = 1") == 2);
  REQUIRE(line_of_deep_key("a = \"unfinished\n" + dotted(17) + " = 1") == 2);
}

TEST_CASE("dots in values, comments and text are no dots of a key") {
  std::string numbers = "a = [";
  for (int i = 0; i < 1000; ++i) numbers += "0.5, ";
  REQUIRE(line_of_deep_key(numbers + "]") == std::nullopt);
  REQUIRE(line_of_deep_key("a = \"" + dotted(100) + "\"") == std::nullopt);
  REQUIRE(line_of_deep_key("a = '" + dotted(100) + "'") == std::nullopt);
  REQUIRE(line_of_deep_key("a = '''\n" + dotted(100) + "'''") == std::nullopt);
  REQUIRE(line_of_deep_key("a = 1  # " + dotted(100)) == std::nullopt);
  REQUIRE(line_of_deep_key("") == std::nullopt);
  REQUIRE(line_of_deep_key("a = \"\\") == std::nullopt);
}

TEST_CASE("an experiment file with a key of 300,000 dots is an error") {
  const TemporaryFolder folder;
  for (const std::string& text :
       std::vector<std::string>{dotted(300'000) + " = 1\n", "\n[" + dotted(300'000) + "]\n"}) {
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

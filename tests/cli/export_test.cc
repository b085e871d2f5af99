// Saved models in files for other programs.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/catch.h"
#include "tests/cli/json.h"
#include "tests/contains.h"

namespace starling::cli_tests {
namespace {

// Rows of three classes; the first column has large numbers with small differences.
std::string rows_of_three(int count) {
  std::ostringstream text;
  text << "when,\"u, v\",kind\n";
  for (int k = 0; k < count; ++k)
    text << 1'700'000'000 + k % 3 * 40 + k * 31 % 17 << "," << (k * 7919 % 100) / 50.0 << ","
         << std::array{"ash", "elm", "oak"}[static_cast<std::size_t>(k % 3)] << "\n";
  return text.str();
}

struct TableModel {
  TableModel() {
    std::filesystem::create_directory(folder.file("trees"));
    folder.write("trees/train.csv", rows_of_three(300));
    folder.write("trees/test.csv", rows_of_three(40));
    const Outcome outcome = run({"simulate", "--peers", "1", "--model", "mlp", "--data", folder.file("trees"),
                                 "--steps", "60", "--looks", "0", "--out", folder.file("run")});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
  }
  std::string model() const { return folder.file("run/model.safetensors"); }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("an ONNX file of a table's model gives predict's classes for the cells of the table") {
  const TableModel trained;
  const auto& folder = trained.folder;
  const std::string onnx = folder.file("model.onnx");
  const Outcome exported = run({"export", trained.model(), "--format", "onnx", "--out", onnx});
  INFO(exported.err);
  REQUIRE(exported.exit_code == 0);
  CHECK(exported.err.empty());
  folder.write("predictions.csv", run({"predict", trained.model(), "--data", folder.file("trees")}).out);
  const std::string command = "python3 " STARLING_SOURCE_DIR "/tests/cli/compare_onnx.py " + onnx + " " +
                              folder.file("trees/test.csv") + " " + folder.file("predictions.csv") + " > " +
                              folder.file("said") + " 2>&1";
  const int status = std::system(command.c_str());
  constexpr int kMissing = 77 << 8;
  INFO(read_whole(folder.file("said")));
  if (status == kMissing) {
    WARN("skipped: " << read_whole(folder.file("said")));
  } else {
    CHECK(status == 0);
  }
}

TEST_CASE("an export to ONNX that is impossible is refused in a line") {
  const TableModel trained;
  const auto& folder = trained.folder;
  const auto refused = [&](Words more, const std::string& why) {
    Words words = {"export", trained.model()};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, why));
  };
  const std::string out = folder.file("out");
  refused({"--format", "keras", "--out", out}, "--format: 'keras' is unknown; expected safetensors");
  refused({"--format", "onnx", "--names", "gpt2", "--out", out}, "--names has no effect with --format onnx");
  refused({"--data", "glyphs", "--out", out}, "--data has no effect with --format safetensors");
  refused({"--format", "onnx", "--out", trained.model()}, "which is read");
  CHECK_FALSE(std::filesystem::exists(out));
}

}  // namespace starling::cli_tests

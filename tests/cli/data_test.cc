// Data sets from files: printed and trained on.

#include <sstream>

#include "tests/catch.h"
#include "tests/cli/json.h"

namespace starling::cli_tests {
namespace {

using nlohmann::json;

// Two linearly separable classes, in columns of very different scale.
std::string two_clouds(int records) {
  std::ostringstream text;
  text << "far,near,label\r\n";
  for (int k = 0; k < records; ++k) {
    const int label = k % 3 % 2, noise = k * 7919 % 100;
    text << 5000 + 300 * label + noise << ",0.00" << 6 - 3 * label << noise << "," << label << "\r\n";
  }
  return text.str();
}

TEST_CASE("data info describes a table") {
  const TemporaryFolder folder;
  folder.write("clouds.csv", two_clouds(200));
  const json info = run_json({"data", "info", folder.file("clouds.csv"), "--json"});
  CHECK(info.at("name") == "clouds");
  CHECK(info.at("shape") == json::array({2, 1, 1}));
  CHECK(info.at("classes") == 2);
  CHECK(info.at("train_samples") == 180);
  CHECK(info.at("test_samples") == 20);
  CHECK(info.at("mean").size() == 2);
  CHECK(info.at("deviation").size() == 2);
  CHECK(info.at("mean").at(0).get<double>() > 5000);
  CHECK(info.at("mean").at(1).get<double>() < 0.01);
  CHECK(info.at("memory_bytes") == 200 * (2 * 4 + 1));

  const Outcome text = run({"data", "info", folder.file("clouds.csv") + ":label=3"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("clouds:label=3: rows of 2 numbers, 2 classes") != std::string::npos);
  CHECK(text.out.find("the first training row, of class 0:\n5000 0.006\n") != std::string::npos);
}

TEST_CASE("data list describes the file formats") {
  const Outcome list = run({"data", "list"});
  CHECK(list.exit_code == 0);
  for (const char* part :
       {"glyphs", "train-images-idx3-ubyte", "data_batch_1.bin", "x_train.npy", "train.csv", "FILE.csv"})
    CHECK(list.out.find(part) != std::string::npos);
}

TEST_CASE("an error in a table names file, line and column") {
  const TemporaryFolder folder;
  folder.write("bad.csv", "a,b,label\n1,2,0\n1,x,0\n");
  for (const Words& words : std::vector<Words>{{"data", "info", folder.file("bad.csv")},
                                               {"simulate", "--data", folder.file("bad.csv")},
                                               {"swarm", "--data", folder.file("bad.csv")}}) {
    const Outcome outcome = run(words);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(is_one_line(outcome.err));
    CHECK(outcome.err.find("bad.csv', line 3, column 2 (\"b\") is 'x'") != std::string::npos);
  }
}

TEST_CASE("a swarm learns a table") {
  const TemporaryFolder folder;
  folder.write("clouds.csv", two_clouds(1000));
  const Outcome outcome =
      run({"simulate", "--peers", "2", "--model", "softmax", "--data", folder.file("clouds.csv"), "--epochs",
           "3", "--out", folder.file("run"), "--json"});
  CHECK(is_one_line(outcome.err));
  CHECK(outcome.err.find(
            "data clouds: the labels are column 3 (\"label\"), by its name; one record in ten is for "
            "testing") != std::string::npos);
  const json run_summary = summary_of(outcome);
  CHECK(run_summary.at("data") == "clouds");
  CHECK(run_summary.at("accuracy").get<double>() > 0.95);
}

}  // namespace
}  // namespace starling::cli_tests

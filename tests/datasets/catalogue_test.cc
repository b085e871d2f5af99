#include "datasets/catalogue.h"

#include <cmath>
#include <iostream>

#include "datasets/dataset.h"
#include "datasets/info.h"
#include "tests/datasets/files.h"

namespace starling::datasets {

TEST_CASE("an unknown name lists the catalogue, the folder form and STARLING_DATA") {
  for (const std::string root : {"", "/nowhere"}) {
    const auto set = load("no-such-set", root);
    REQUIRE_FALSE(set.ok());
    const auto& message = set.error().message;
    for (const char* part :
         {"'no-such-set'", "'glyphs'", "'mnist'", "folder with the four IDX files", "STARLING_DATA"})
      CHECK(contains(message, part));
    CHECK_FALSE(contains(message, "\n"));
  }
  REQUIRE(contains(load("", "").error().message, "'cifar100', 'glyphs' or 'mnist'"));
}

TEST_CASE("a catalogue name without its data says where it was looked for") {
  TemporaryFolder folder;
  REQUIRE(contains(load("mnist", "").error().message,
                   "STARLING_DATA, which names the folder of data sets, is not set"));
  REQUIRE(contains(load("mnist", folder.path()).error().message, "STARLING_DATA is '" + folder.path() + "'"));
}

TEST_CASE("a folder without a data set's files says which it should hold") {
  TemporaryFolder folder;
  const auto set = load(folder.path(), "");
  REQUIRE_FALSE(set.ok());
  REQUIRE(contains(set.error().message, "holds no data set; accepted are"));
}

TEST_CASE("a folder is loaded by its path, and by its name under the data root") {
  TemporaryFolder root;
  std::filesystem::create_directory(root.path("tiny"));
  root.write("tiny/train-images-idx3-ubyte", images(4));
  root.write("tiny/train-labels-idx1-ubyte", labels({0, 1, 0, 1}));
  root.write("tiny/t10k-images-idx3-ubyte", images(1));
  root.write("tiny/t10k-labels-idx1-ubyte", labels({1}));
  for (const auto& pair :
       {load(root.path("tiny"), ""), load("tiny", root.path()), load(root.path("tiny/"), "")}) {
    REQUIRE(pair.ok());
    REQUIRE(pair->name == "tiny");
    REQUIRE(pair->train.size() == 4);
  }
}

TEST_CASE("names that mean the same data are the same name") {
  REQUIRE(data_name("mnist") == "mnist");
  REQUIRE(data_name("/some/where/mnist/") == "mnist");
  REQUIRE(data_name("where/mnist/.") == "mnist");
  REQUIRE(data_name("glyphs") == "glyphs");
  REQUIRE(data_name("glyphs:seed=1") == "glyphs");
  REQUIRE(data_name("glyphs:seed=7") == "glyphs:seed=7");
}

TEST_CASE("glyphs refuses what is not a seed") {
  for (const char* name :
       {"glyphs:", "glyphs:seed", "glyphs:seed=x", "glyphs:seed=-1", "glyphs:size=3", "glyphs:seed=1,b=2"}) {
    const auto set = load(name, "");
    REQUIRE_FALSE(set.ok());
    CHECK(contains(set.error().message, "as in 'glyphs:seed=7'"));
  }
}

TEST_CASE("every catalogue entry says what it is and where it is found") {
  REQUIRE(catalogue().size() == 4);
  for (const auto& entry : catalogue()) {
    CHECK(std::string(entry.description).size() > 20);
    CHECK(std::string(entry.found).size() > 5);
  }
}

TEST_CASE("the original MNIST loads with its known counts, mean and deviation") {
  const auto root = real_data_root();
  if (!root) {
    std::cout << "skipped: MNIST was found neither in $STARLING_DATA nor in ../shared/data\n";
    return;
  }
  const auto pair = load("mnist", *root);
  REQUIRE(pair.ok());
  const Info info = describe(*pair);
  REQUIRE(info.name == "mnist");
  REQUIRE(info.train_samples == 60000);
  REQUIRE(info.test_samples == 10000);
  REQUIRE(info.shape == ImageShape{1, 28, 28});
  REQUIRE(info.train_per_class ==
          std::vector<std::size_t>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  REQUIRE(info.normalization.size() == 1);
  REQUIRE(std::abs(info.normalization[0].mean - 0.1307f) < 0.00005f);
  REQUIRE(std::abs(info.normalization[0].deviation - 0.3081f) < 0.00005f);
  REQUIRE(pair->train.labels[0] == 5);
}

}  // namespace starling::datasets

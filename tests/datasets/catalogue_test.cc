#include "datasets/catalogue.h"

#include <array>
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
         {"'no-such-set'", "'glyphs'", "'mnist'", "folder with the four IDX files", "CIFAR", "NumPy",
          "train.csv", "FILE.csv", "`starling data list`", "STARLING_DATA"})
      CHECK(contains(message, part));
    CHECK_FALSE(contains(message, "\n"));
  }
  REQUIRE(contains(load("", "").error().message, "'mnist', 'shakespeare' or 'wikitext-2'"));
}

TEST_CASE("a missing catalogue data set is an error with the folders that were searched") {
  TemporaryFolder folder;
  const std::string unset = load("mnist", "").error().message;
  CHECK(contains(unset, "STARLING_DATA, the folder of data sets, is not set"));
  CHECK(contains(unset, "`starling data fetch mnist --into DIR` downloads it"));
  CHECK(unset.size() < 200);
  const std::string missing = load("mnist", folder.path()).error().message;
  CHECK(contains(missing, "STARLING_DATA, '" + folder.path() + "', has no such folder"));
  CHECK(contains(missing, "`starling data fetch mnist` downloads it"));
}

TEST_CASE("a folder without a data set's files is an error with the expected files") {
  TemporaryFolder folder;
  const auto set = load(folder.path(), "");
  REQUIRE_FALSE(set.ok());
  REQUIRE(contains(set.error().message, "contains no data set; accepted are"));
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

TEST_CASE("a table is loaded by its path, or by its name under the data root") {
  TemporaryFolder root;
  const std::string text =
      "a,class,b\n1,0,5\n2,1,6\n3,0,7\n4,1,8\n1,0,5\n2,1,6\n3,0,7\n4,1,8\n1,0,5\n2,1,6\n";
  root.write("few.csv", FileBytes(text.begin(), text.end()));
  root.write_gzip("zipped.csv.gz", FileBytes(text.begin(), text.end()));
  for (const auto& [name, data_root, expected] : std::vector<std::array<std::string, 3>>{
           {root.path("few.csv"), "", "few"},
           {"few.csv", root.path(), "few"},
           {"few", root.path(), "few"},
           {"zipped", root.path(), "zipped"},
           {root.path("zipped.csv.gz"), "/nowhere", "zipped"},
           {root.path("few.csv:label=class"), "", "few:label=class"},
           {"few:label=2", root.path(), "few:label=2"},
       }) {
    CAPTURE(name);
    const auto pair = load(name, data_root);
    REQUIRE(pair.ok());
    CHECK(pair->name == expected);
    CHECK(pair->train.size() == 9);
    CHECK(pair->test.size() == 1);
    CHECK(pair->train.shape == ImageShape{2, 1, 1});
    CHECK(pair->train.classes == 2);
  }
  CHECK(load("few:label=1", root.path())->train.classes == 5);
}

TEST_CASE(
    "data that are here are preferred to others of this name in the data root, and a peer's name is not") {
  TemporaryFolder root, here;
  const auto rows = [](int count) {
    std::string text = "a,label\n";
    for (int i = 0; i < count; ++i) text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
    return FileBytes(text.begin(), text.end());
  };
  root.write("t.csv", rows(30));
  here.write("t.csv", rows(20));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(here.path());
  const auto own = load("t.csv", root.path()), others = load_shared("t.csv", root.path()),
             only_there = load("t", root.path());
  const std::string path = data_path("t.csv", root.path());
  std::filesystem::current_path(before);
  REQUIRE(own.ok());
  CHECK(own->train.size() == 18);
  CHECK(contains(own->origin.notes.back(),
                 "read from 't.csv', not from '" + root.path("t.csv") + "', which has the same name"));
  CHECK(path == "t.csv");
  REQUIRE(others.ok());
  CHECK(others->train.size() == 27);
  CHECK(others->name == "t");
  REQUIRE(only_there.ok());
  CHECK(only_there->train.size() == 27);
}

TEST_CASE("another peer's name for data leads to the catalogue and the data root, and never to a path") {
  TemporaryFolder root;
  const std::string text = "1,0,5\n2,1,6\n3,0,7\n4,1,8\n1,0,5\n2,1,6\n3,0,7\n4,1,8\n1,0,5\n2,1,6\n";
  const std::string path = root.write("few.csv", FileBytes(text.begin(), text.end()));
  const std::string folder = root.path("inner");
  std::filesystem::create_directory(folder);
  for (const char* name : {"few", "few.csv", "few:label=2"}) {
    CAPTURE(name);
    const auto pair = load_shared(name, root.path());
    REQUIRE(pair.ok());
    CHECK(pair->train.size() == 9);
  }
  CHECK(load_shared("glyphs:seed=7", "")->name == "glyphs:seed=7");
  for (const std::string& name :
       {path, path + ":label=2", std::string("./few.csv"), std::string("inner/../few"),
        std::string("../few.csv"), std::string(".."), std::string("/")}) {
    CAPTURE(name);
    const auto pair = load_shared(name, folder);
    REQUIRE_FALSE(pair.ok());
    CHECK(
        pair.error().message ==
        "the swarm trains on the data '" + name +
            "', which is a path, and a peer reads no path that another peer names; give the path of your own "
            "copy with --data");
  }
  // Names that load() finds in the working directory.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(root.path());
  const bool own = load("few.csv", "").ok();
  const auto shared = load_shared("few.csv", ""), here = load_shared(".", folder),
             none = load_shared("", folder);
  std::filesystem::current_path(before);
  CHECK(own);
  REQUIRE_FALSE(shared.ok());
  CHECK(contains(shared.error().message,
                 "$STARLING_DATA (not set); give the path of your own copy with --data"));
  REQUIRE_FALSE(here.ok());
  CHECK(contains(here.error().message, "$STARLING_DATA ('" + folder + "')"));
  CHECK_FALSE(none.ok());
  CHECK(contains(load_shared("mnist", folder).error().message, "`starling data fetch mnist` downloads it"));
}

TEST_CASE("folders of tables and of arrays are loaded by their path, tables with a column of labels") {
  TemporaryFolder root;
  std::filesystem::create_directory(root.path("tables"));
  const std::string text = "1,2,0.5\n0,1,0.25\n";
  root.write("tables/train.csv", FileBytes(text.begin(), text.end()));
  root.write("tables/test.csv", FileBytes(text.begin(), text.end()));
  const auto tables = load("tables:label=2", root.path());
  REQUIRE(tables.ok());
  CHECK(tables->name == "tables:label=2");
  CHECK(tables->train.labels == FileBytes{2, 1});
  CHECK(contains(load("tables", root.path()).error().message, "is '0.5', but a label is a whole number"));

  std::filesystem::create_directory(root.path("arrays"));
  root.write("arrays/x_train.npy", {});
  const auto arrays = load("arrays", root.path());
  REQUIRE_FALSE(arrays.ok());
  CHECK(contains(arrays.error().message, "has no file y_train.npy"));
  CHECK(contains(load("arrays:label=1", root.path()).error().message, "do not take the option :label="));
}

TEST_CASE("a path that is not a data set, or has an option of another format, is rejected") {
  TemporaryFolder folder;
  CHECK(contains(load(folder.write("notes.xyz", {'a'}), "").error().message,
                 "notes.xyz' is not a data set; accepted"));
  CHECK(contains(load(folder.path("gone.csv"), "").error().message, "/gone.csv' was not found"));
  CHECK(contains(load(folder.path("gone.csv:label=1"), "").error().message, "/gone.csv' was not found"));
  for (const char* option : {":", ":label", ":label=", ":seed=3"}) {
    CAPTURE(option);
    CHECK(contains(load(folder.path("some.csv") + option, "").error().message,
                   "as in 'iris.csv:label=species'"));
  }
}

TEST_CASE("names that mean the same data are the same name") {
  REQUIRE(data_name("mnist") == "mnist");
  REQUIRE(data_name("/some/where/mnist/") == "mnist");
  REQUIRE(data_name("where/mnist/.") == "mnist");
  REQUIRE(data_name("glyphs") == "glyphs");
  REQUIRE(data_name("glyphs:seed=1") == "glyphs");
  REQUIRE(data_name("glyphs:seed=7") == "glyphs:seed=7");
  for (const char* path : {"iris", "iris.csv", "/a/iris.csv.gz", "b/IRIS/../iris.CSV", "c:d/iris.csv"})
    REQUIRE(data_name(path) == "iris");
  REQUIRE(data_name("/a/iris.csv.gz:label=a/b") == "iris:label=a/b");
  REQUIRE(data_name("/a/tables/:label=3") == "tables:label=3");
  REQUIRE(data_name(".csv") == ".csv");
  REQUIRE(data_name("mnist.csv") == "mnist.csv");  // different from the catalogue's mnist
}

TEST_CASE("a path that exists is what it says, and names that lead elsewhere, too, are told") {
  TemporaryFolder root, here;
  const auto rows = [](int count) {
    std::string text = "a,b\n";
    for (int i = 0; i < count; ++i) text += std::to_string(i % 2) + "," + std::to_string(i % 2) + "\n";
    return FileBytes(text.begin(), text.end());
  };
  std::filesystem::create_directories(here.path("glyphs"));
  std::filesystem::create_directories(here.path("few:label=a"));
  std::filesystem::create_directories(here.path("other"));
  for (const char* name :
       {"glyphs/train.csv", "glyphs/test.csv", "few:label=a/train.csv", "few:label=a/test.csv"})
    here.write(name, rows(30));
  here.write("few.csv", rows(20));
  here.write("plain", rows(20));
  root.write("plain.csv", rows(20));
  root.write("both", rows(20));
  root.write("both.csv", rows(20));
  root.write("other.csv", rows(20));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(here.path());
  const auto glyphs = load("glyphs", ""), shared = load_shared("glyphs", ""),
             built_in = load("glyphs:seed=1", ""), literal = load("few:label=a", ""),
             column = load("few.csv:label=a", "");
  const std::string plain = load("plain", root.path()).error().message,
                    both = load("both", root.path()).error().message,
                    folder = load("other", root.path()).error().message;
  std::filesystem::current_path(before);
  REQUIRE(glyphs.ok());
  CHECK(glyphs->train.size() == 30);
  CHECK(glyphs->origin.notes.back() ==
        "read from 'glyphs', not from 'glyphs:seed=1', which has the same name");
  CHECK(built_in->train.size() == 60'000);
  CHECK(shared->train.size() == 60'000);
  REQUIRE(literal.ok());
  CHECK(literal->train.size() == 30);
  CHECK(column->origin.label == "column 1 (\"a\")");
  CHECK(contains(plain, "the file 'plain' is not a data set; '" + root.path("plain.csv") +
                            "' has the same name, so name it by its path; accepted"));
  CHECK(contains(both, "the file '" + root.path("both") + "' is not a data set; '" + root.path("both.csv")));
  CHECK(contains(folder, "the folder 'other' contains no data set; '" + root.path("other.csv")));
}

TEST_CASE("what a folder has beside the files that are read is told") {
  TemporaryFolder folder;
  const auto noted = [&](const std::string& name) {
    const auto pair = load(folder.path(name), "");
    INFO((pair.ok() ? "" : pair.error().message));
    REQUIRE(pair.ok());
    return pair->origin.notes.empty() ? "" : pair->origin.notes.back();
  };
  for (const char* name : {"images", "images/more", "tables", "texts", "parts"})
    std::filesystem::create_directories(folder.path(name));
  folder.write("images/train-images-idx3-ubyte", images(4));
  folder.write("images/train-labels-idx1-ubyte", labels({0, 1, 0, 1}));
  folder.write("images/t10k-images-idx3-ubyte", images(1));
  folder.write("images/t10k-labels-idx1-ubyte", labels({1}));
  folder.write("images/.hidden", {1});
  CHECK(noted("images") == "not read in '" + folder.path("images") + "': more/");
  for (const char* name : {"train.csv", "test.csv", "README", "a", "b", "c\n"})
    folder.write(std::string("images/") + name, {'1', ',', '1', '\n'});
  CHECK(noted("images") == "not read in '" + folder.path("images") +
                               "': README, a, a name that cannot be printed, b and 3 more");
  for (const char* name : {"TRAIN.CSV", "Test.csv"})
    folder.write(std::string("tables/") + name, {'1', ',', '1'});
  CHECK(noted("tables").empty());
  const FileBytes text = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j',
                          'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't'};
  for (const char* name : {"one.txt", "two.txt", "tokenizer.txt", "merges.txt"})
    folder.write(std::string("texts/") + name, text);
  CHECK(noted("texts") == "not read in '" + folder.path("texts") + "': merges.txt, tokenizer.txt");
  for (const char* name : {"Train.txt", "TEST.txt", "VAL.TXT", "notes.txt"})
    folder.write(std::string("parts/") + name, text);
  CHECK(noted("parts") == "not read in '" + folder.path("parts") + "': VAL.TXT, notes.txt");
  CHECK(load(folder.path("parts"), "")->train.tokens.size() == text.size());
}

TEST_CASE("every format lists its files in the error message") {
  REQUIRE(formats().size() == 9);
  for (const auto& form : formats()) {
    CHECK(std::string(form.what).size() > 10);
    CHECK(std::string(form.files).size() > 20);
  }
}

TEST_CASE("glyphs rejects an invalid seed") {
  for (const char* name :
       {"glyphs:", "glyphs:seed", "glyphs:seed=x", "glyphs:seed=-1", "glyphs:size=3", "glyphs:seed=1,b=2"}) {
    const auto set = load(name, "");
    REQUIRE_FALSE(set.ok());
    CHECK(contains(set.error().message, "as in 'glyphs:seed=7'"));
  }
}

TEST_CASE("every catalogue entry has a description and a source") {
  REQUIRE(catalogue().size() == 8);
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
  const Info info = info_of(*pair);
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

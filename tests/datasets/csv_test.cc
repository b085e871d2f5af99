#include "datasets/readers/csv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

#include "base/random.h"
#include "datasets/info.h"
#include "tests/datasets/files.h"
#include "tests/seeds.h"

namespace starling::datasets {
namespace {

FileBytes bytes(const std::string& text) { return {text.begin(), text.end()}; }

// Reads a folder whose training and test files both contain this text.
Result<DataPair> twice(const std::string& text, const std::string& label = "") {
  TemporaryFolder folder;
  folder.write("train.csv", bytes(text));
  folder.write("test.csv", bytes(text));
  return read_csv_folder(folder.path(), label);
}

Dataset read_table(const std::string& text, const std::string& label = "") {
  const auto pair = twice(text, label);
  INFO((pair.ok() ? "" : pair.error().message));
  REQUIRE(pair.ok());
  return pair->train;
}

// The error for a training file with this text.
std::string csv_refusal(const std::string& text, const std::string& label = "") {
  TemporaryFolder folder;
  folder.write("file.csv", bytes(text));
  const auto pair = read_csv_file(folder.path("file.csv"), label);
  REQUIRE_FALSE(pair.ok());
  const std::string& message = pair.error().message;
  CHECK(message.starts_with("'" + folder.path("file.csv") + "'"));
  CHECK_FALSE(contains(message, "\n"));
  return message;
}

}  // namespace

TEST_CASE("a table's rows become floats, and its label column becomes classes") {
  const Dataset set = read_table("1.5,-2e-3,0\n3,+4,2\n");
  CHECK(set.shape == ImageShape{2, 1, 1});
  CHECK(set.classes == 3);
  CHECK(set.features == std::vector<float>{1.5f, -2e-3f, 3, 4});
  CHECK(set.images.empty());
  CHECK(set.labels == FileBytes{0, 2});
}

TEST_CASE("byte-order mark, CRLF, quotes, spaces, empty last lines and a missing last newline are accepted") {
  const std::vector<float> features = {1.5f, 2, 3, 4};
  for (const char* text : {
           "1.5,2,0\n3,4,1\n", "1.5,2,0\n3,4,1", "1.5,2,0\r\n3,4,1\r\n", "1.5,2,0\r\n3,4,1\r\n\r\n\n  \n",
           "\xef\xbb\xbf"
           "1.5,2,0\n3,4,1\n",
           "\"1.5\",\"2\",\"0\"\n\"3\",\" 4 \" ,\"1\"\n", " 1.5 , 2, 0\n3,4 ,\t1.0 \n", "1.5;2;0\n3;4;1\n",
           "1.5\t2\t0\n3\t 4\t1\n", "a,b,c\n1.5,2,0\n3,4,1\n",
           "\xef\xbb\xbf\"a, \"\"b\"\"\",\"two\r\nlines\",c\r\n1.5,2,0\r\n3,4,1",
           "a;b;\"c,d\"\n1.5;2;0\n3;4;1\n",
           "a,3,0\n1.5,2,0\n3,4,1\n",  // one cell that is not a number makes a header
       }) {
    CAPTURE(text);
    const Dataset set = read_table(text);
    CHECK(set.features == features);
    CHECK(set.labels == FileBytes{0, 1});
  }
}

TEST_CASE("numbers are read as the nearest float, and those near zero as zero") {
  const Dataset set = read_table("0.1,16777217,1e-50,-1e-400,.5,0\n3.4028235e38,1e-45,1.,1E2,0,0\n");
  CHECK(set.features == std::vector<float>{0.1f, 16777216.0f, 0, 0, 0.5f, 3.4028235e38f, 1e-45f, 1, 100, 0});
}

TEST_CASE("random numbers of every length are read as strtod() reads them") {
  // The second column's values differ in the last digits of a double only, which its offset leaves.
  Random random(first_seed());
  INFO("first seed " << first_seed());
  const auto digits = [&](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += static_cast<char>('0' + random.below(10));
    return text;
  };
  constexpr std::size_t kRows = 4000;
  std::vector<std::array<std::string, 2>> cells;
  std::string text;
  for (std::size_t row = 0; row < kRows; ++row) {
    std::string any = random.below(2) == 0 ? "" : "-";
    any += digits(1 + random.below(12));
    if (random.below(4) > 0) any += "." + digits(random.below(12));
    if (random.below(8) == 0) any += "e" + std::to_string(static_cast<int>(random.below(40)) - 20);
    cells.push_back({any, "1.00000000000" + digits(1 + random.below(5))});
    text += cells.back()[0] + "," + cells.back()[1] + ",0\n";
  }
  const Dataset set = read_table(text);
  REQUIRE(set.size() == kRows);
  const std::vector<double> offsets = set.offsets.empty() ? std::vector<double>(2) : set.offsets;
  REQUIRE(offsets[1] != 0);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t column = 0; column < 2; ++column) {
      const std::string& cell = cells[row][column];
      CAPTURE(cell);
      const double value = std::strtod(cell.c_str(), nullptr);
      REQUIRE(set.features[2 * row + column] == static_cast<float>(value - offsets[column]));
    }
  }
}

TEST_CASE("the label column is the one with the usual name, else the last, unless the user chooses") {
  const auto labels = [](const std::string& text, const std::string& label = "") {
    return read_table(text, label).labels;
  };
  CHECK(labels("label,a\n1,2\n") == FileBytes{1});
  CHECK(labels("a,CLASS,b\n1,2,3\n") == FileBytes{2});
  CHECK(labels("Target,a\n1,2\n") == FileBytes{1});
  CHECK(labels("x,y,z\n1,2,3\n") == FileBytes{2});
  CHECK(labels("y,class,label,target\n1,2,3,4\n") == FileBytes{3});
  CHECK(labels("a,b,c\n1,2,3\n") == FileBytes{3});
  CHECK(labels("9,2,3\n") == FileBytes{3});
  CHECK(labels("9,2,3\n", "2") == FileBytes{2});
  CHECK(labels("label,b,c\n1,2,3\n", "b") == FileBytes{2});
  CHECK(labels("B,b,c\n1,2,3\n", "b") == FileBytes{2});
  CHECK(labels("B,a,c\n1,2,3\n", "b") == FileBytes{1});
  CHECK(labels("a,b,c\n1,2,3\n", "3") == FileBytes{3});
  CHECK(read_table("a,label,c\n1,2,3\n").features == std::vector<float>{1, 3});
}

TEST_CASE("a choice of a missing column is an error with the existing columns") {
  CHECK(contains(csv_refusal("a,b\n1,2\n", "species"),
                 "has no column named 'species'; its header has 'a', 'b'"));
  CHECK(contains(csv_refusal("1,2\n", "species"), "has no header line, so no column is named 'species'"));
  CHECK(contains(csv_refusal("1,2\n", "species"), "by its number from 1 to 2"));
  for (const char* number : {"0", "3", "99999999999999999999999"})
    CHECK(contains(csv_refusal("1,2\n", number),
                   "has 2 columns, so ':label=" + std::string(number) + "' is not one"));
  CHECK(contains(csv_refusal("a,b,a\n1,2,3\n", "a"), "column 1 and column 3 are both named 'a'"));
  CHECK(contains(csv_refusal("label,b,Label\n1,2,3\n"), "column 1 and column 3 are both named 'label'"));
}

TEST_CASE("a bad cell is reported with its line and column, and with what is valid") {
  const std::string good = "width,height,label\n1,2,0\n";
  const auto has = [&](const std::string& lines, const std::vector<std::string>& parts) {
    const std::string message = csv_refusal(good + lines);
    INFO(message);
    for (const std::string& part : parts) CHECK(contains(message, part));
  };
  has("1,tall,0\n",
      {", line 3, column 2 (\"height\") is 'tall', which is not a number; every cell must be one"});
  has("1,2,0\n\"1 m\",2,0\n", {", line 4, column 1 (\"width\") is '1 m'"});
  has("1,,0\n", {", line 3, column 2 (\"height\") is empty; every cell must be a number"});
  has("  ,2,0\n", {", line 3, column 1 (\"width\") is empty"});
  has("1,nan,0\n", {", line 3, column 2 (\"height\") is 'nan'; only finite numbers"});
  has("-inf,1,0\n", {", line 3, column 1 (\"width\") is '-inf'; only finite numbers"});
  has("1e39,1,0\n", {"is '1e39'; only finite numbers that fit into 32-bit floats"});
  has("1e999,1,0\n", {"is '1e999'; only finite numbers"});
  has("\"1,5\",1,0\n", {"is '1,5', but numbers are written with a point, as in 1.5, "
                        "and without separators of thousands"});
  has("0x10,1,0\n", {"is '0x10', which is not a number"});
  has("+-1,1,0\n", {"is '+-1', which is not a number"});
  has("\"1\"2,1,0\n", {", line 3, column 1 (\"width\") has text after its closing quote"});
  has("1,\"2,0\n", {", line 3, column 2 (\"height\") opens a quote that is not closed on its line"});
  has(std::string(100, 'x') + ",1,0\n", {"is '" + std::string(40, 'x') + "...'"});
  has(std::string("a\x1b[31m,1,0\n"), {"is 'a?[31m'"});
  CHECK(contains(csv_refusal("1,2,0\n1,x,0\n"), ", line 2, column 2 is 'x'"));
}

TEST_CASE("a bad label is reported with its line and column, and with what is valid") {
  for (const char* label : {"-1", "256", "1.5", "setosa", "", "nan", "4294967296", "true"}) {
    CAPTURE(label);
    const std::string message = csv_refusal("a,class,b\n1,0,2\n\n1," + std::string(label) + ",2\n");
    CHECK(contains(message, ", line 3 is empty"));  // reported first
    const std::string other = csv_refusal("a,class,b\n1,0,2\n1," + std::string(label) + ",2\n");
    CHECK(contains(other, ", line 3, column 2 (\"class\")"));
    CHECK(contains(other, "a label is a whole number from 0 to 255"));
    CHECK(contains(other, *label ? "is '" + std::string(label) + "'" : "is empty"));
    CHECK(contains(other, "':label=1'"));
  }
}

TEST_CASE("labels may be names, which are classes in their alphabetical order") {
  const Dataset named = read_table("a,species\n1,virginica\n2,\"setosa\"\n3,versicolor\n4,setosa\n");
  CHECK(named.labels == std::vector<std::uint8_t>{2, 0, 1, 0});
  CHECK(named.classes == 3);
  // Without a header line, as the first record's only text is its class.
  const Dataset bare = read_table("1,b\n2,a\n3,10\n");
  CHECK(bare.labels == std::vector<std::uint8_t>{2, 1, 0});
  // A header of numbers with a name for the labels stays one.
  CHECK(read_table("0,1,label\n1,2,1\n3,4,0\n").size() == 2);

  // Both files of a folder have the same classes.
  TemporaryFolder folder;
  folder.write("train.csv", bytes("x,kind\n1,k1\n2,k2\n"));
  folder.write("test.csv", bytes("x,kind\n1,k0\n2,k2\n"));
  const auto pair = read_csv_folder(folder.path(), "");
  REQUIRE(pair.ok());
  CHECK(pair->train.labels == std::vector<std::uint8_t>{1, 2});
  CHECK(pair->test.labels == std::vector<std::uint8_t>{0, 2});
  CHECK(pair->train.classes == 3);

  std::string many = "x,kind\n";
  for (int i = 0; i <= 256; ++i) many += "1,k" + std::to_string(i) + "\n";
  CHECK(contains(csv_refusal(many), "column 2 (\"kind\") is class number 257; at most 256 are accepted"));
  CHECK(contains(csv_refusal("x,kind\n1,a\n2,\n"), "is empty"));
}

TEST_CASE("too few and too many cells are counted") {
  const std::string good = "a,b,c\n1,2,0\n";
  CHECK(contains(csv_refusal(good + "1,2\n"), ", line 3 has 2 cells, but the first line has 3"));
  CHECK(contains(csv_refusal(good + "1,2\n"), "column 3 (\"c\") is missing"));
  CHECK(contains(csv_refusal(good + "1\n"), ", line 3 has 1 cell, but the first line has 3"));
  CHECK(contains(csv_refusal(good + "1,2,0,4,\n"), ", line 3 has 5 cells, but the first line has 3"));
  CHECK(contains(csv_refusal(good + "1;2;0\n"), ", line 3, column 1 (\"a\") is '1;2;0'"));
  CHECK(contains(csv_refusal(good + "\n\n1,2,0\n"),
                 ", line 3 is empty; lines may be empty only after the last record"));
}

TEST_CASE("a file without a table is an error with what is missing") {
  CHECK(contains(csv_refusal(""), "is empty; one record per line is needed"));
  CHECK(contains(csv_refusal("\xef\xbb\xbf"), "is empty"));
  CHECK(contains(csv_refusal("\n1,2\n"), ", line 1 is empty"));
  CHECK(contains(csv_refusal("a,b\n"), "contains no record after its header line"));
  CHECK(contains(csv_refusal("1\n2\n"), "has only one column"));
  CHECK(contains(csv_refusal("1,0\n2,0\n"), "has 2 records; at least 10 are needed"));
  CHECK(contains(csv_refusal("\xff\xfe"
                             "1"),
                 "is text in UTF-16"));
  CHECK(
      contains(csv_refusal("\"a,b\n" + std::string(20 << 20, 'x')), "perhaps because a quote is not closed"));
  CHECK(
      contains(csv_refusal("1,2\n" + std::string(20 << 20, '1')), ", line 2: it is longer than the 16 MiB"));
  TemporaryFolder folder;
  CHECK(contains(read_csv_file(folder.path("none.csv")).error().message, "/none.csv' was not found"));
}

TEST_CASE("one of every ten records of a single file is for testing, drawn deterministically") {
  TemporaryFolder folder;
  std::string text = "label,number\n";
  constexpr int kRecords = 995;
  for (int k = 0; k < kRecords; ++k) text += std::to_string(k % 10) + "," + std::to_string(k) + "\n";
  folder.write("file.csv", bytes(text));
  const auto pair = read_csv_file(folder.path("file.csv"));
  REQUIRE(pair.ok());
  CHECK(pair->name == "file");
  CHECK(pair->train.size() + pair->test.size() == kRecords);
  std::set<int> tens, positions, all;
  for (const float number : pair->test.features) {
    tens.insert(static_cast<int>(number) / 10);
    positions.insert(static_cast<int>(number) % 10);
    all.insert(static_cast<int>(number));
  }
  CHECK(tens.size() == pair->test.size());  // never two of the same ten
  CHECK(pair->test.size() >= 99);           // perhaps none of the last five
  CHECK(positions.size() == 10);            // every class is tested, although the classes alternate
  for (std::size_t k = 0; k < pair->train.size(); ++k) {
    all.insert(static_cast<int>(pair->train.features[k]));
    REQUIRE(pair->train.labels[k] == static_cast<int>(pair->train.features[k]) % 10);
  }
  CHECK(all.size() == kRecords);

  folder.write_gzip("again.csv.gz", bytes(text));
  const auto again = read_csv_file(folder.path("again.csv.gz"));
  REQUIRE(again.ok());
  CHECK(again->test.features == pair->test.features);
  CHECK(again->train.features == pair->train.features);
  CHECK(again->name == "again");
}

TEST_CASE("a single file's classes are those of all its records") {
  for (int rare = 0; rare < 10; ++rare) {
    std::string text;
    for (int k = 0; k < 10; ++k) text += "1," + std::to_string(k == rare ? 255 : 0) + "\n";
    TemporaryFolder folder;
    const auto pair = read_csv_file(folder.write("file.csv", bytes(text)));
    REQUIRE(pair.ok());
    CHECK(pair->train.classes == 256);
    CHECK(pair->test.classes == 256);
    CHECK(pair->test.size() == 1);
    CHECK(info_of(*pair).train_per_class.size() == 256);
  }
}

TEST_CASE("a folder's two tables make a pair that shares the training table's means and deviations") {
  TemporaryFolder folder;
  folder.write_gzip("train.csv.gz", bytes("a,b,label\n0,5,0\n2,5,1\n"));
  CHECK(is_csv_folder(folder.path()));
  CHECK(contains(read_csv_folder(folder.path()).error().message, "has no file test.csv (or test.csv.gz)"));
  folder.write("test.csv", bytes("a,b,label\n4,6,1\n"));
  const auto pair = read_csv_folder(folder.path());
  REQUIRE(pair.ok());
  CHECK(pair->train.size() == 2);
  CHECK(pair->test.classes == 2);
  float values[2];
  std::int32_t label = 0;
  const std::uint32_t index = 0;
  pair->test.gather({&index, 1}, values, &label);
  CHECK(values[0] == 3);
  CHECK(values[1] == 1);  // the column is constant in training: only its mean is subtracted
  CHECK(label == 1);
}

TEST_CASE("training and test tables with different columns or classes are rejected with both files' names") {
  TemporaryFolder folder;
  folder.write("train.csv", bytes("a,b,label\n0,5,0\n2,5,1\n"));
  const auto message = [&](const std::string& test) {
    folder.write("test.csv", bytes(test));
    const auto pair = read_csv_folder(folder.path());
    REQUIRE_FALSE(pair.ok());
    CHECK(contains(pair.error().message, "test"));
    CHECK(contains(pair.error().message, "train"));
    return pair.error().message;
  };
  CHECK(contains(message("a,label\n0,0\n"),
                 "test.csv' has 2 columns, but '" + folder.path("train.csv") + "' has 3"));
  CHECK(contains(message("b,a,label\n0,0,0\n"), "names column 1 'b', but '"));
  CHECK(contains(message("a,b,label\n0,0,2\n"), "test labels go up to 2, but the training labels only to 1"));
  CHECK(contains(message("1,2,0\n"),
                 "train.csv' has a header line, but '" + folder.path("test.csv") + "' has none"));
  CHECK(contains(message("a,b,label\n0,0,ash\n1,1,oak\n"), "train.csv' has numbers as labels, but '"));
  folder.write("train.csv", bytes("a,b,label\n0,5,oak\n2,5,ash\n"));
  CHECK(contains(message("a,b,label\n0,0,200\n1,1,250\n"),
                 "train.csv' has names as labels, but '" + folder.path("test.csv") + "' has numbers"));
  folder.write("train.csv", bytes("a,b,label\n0,5,0\n2,5,1\n"));
  folder.write("test.csv", bytes("a,b,label\n0,x,1\n"));
  CHECK(
      contains(read_csv_folder(folder.path()).error().message, "test.csv', line 2, column 2 (\"b\") is 'x'"));
}

TEST_CASE("what other programs put around a table is refused by name or told") {
  CHECK(
      contains(csv_refusal("sep=;\n1;2\n"), "the first line 'sep=;' is a spreadsheet's note and no record"));
  CHECK(contains(csv_refusal("a,b\r1,2\r3,4\r"), "ends its lines with carriage returns only"));
  CHECK(contains(csv_refusal("a,b\n\"1\n2\",0\n"),
                 "line 2, column 1 (\"a\") opens a quote that is not closed on its line; only a header may"));
  const auto indexed = twice(",0,1,2\n0,5,6,0\n1,6,5,1\n");
  REQUIRE(indexed.ok());
  CHECK(indexed->train.size() == 2);
  CHECK(indexed->origin.decisions ==
        std::vector<std::string>{"the first line numbers the columns and is read as a header",
                                 "the labels are column 4 (\"2\"), the last one",
                                 "column 1 has no name, as the index that pandas writes, and is a feature"});
}

TEST_CASE("a number selects the column of labels also where another column has it as its name") {
  const auto pair = twice("x,z,1\n0,7,5\n1,8,6\n", "1");
  REQUIRE(pair.ok());
  CHECK(pair->train.labels == FileBytes{0, 1});
  CHECK(
      pair->origin.decisions ==
      std::vector<std::string>{":label=1 is column 1 (\"x\"), by its number; another column has this name"});
  CHECK(twice("1,2,3\n0,7,5\n1,8,6\n", "1")->origin.decisions.size() == 1);  // of the header
}

TEST_CASE("lines that cross the blocks in which a file is read are complete") {
  std::string text;
  constexpr int kRecords = 300'000;  // about 4 MB
  for (int k = 0; k < kRecords; ++k)
    text += std::to_string(k) + ",0." + std::to_string(k % 7) + "," + std::to_string(k % 3) + "\r\n";
  const Dataset set = read_table(text);
  REQUIRE(set.size() == kRecords);
  bool right = true;
  for (int k = 0; k < kRecords; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const auto value = [&](std::size_t c) {
      return static_cast<double>(set.features[2 * at + c]) + set.offset_of(c);
    };
    right = right && value(0) == k && set.labels[at] == k % 3 && std::abs(value(1) - 0.1 * (k % 7)) < 1e-6;
  }
  CHECK(right);
  const std::string wide = [] {
    std::string line;
    for (int c = 0; c < 400'000; ++c) line += "1.25,";  // 2 MB
    return line + "0\n";
  }();
  const Dataset rows = read_table(wide + wide);
  CHECK(rows.shape == ImageShape{400'000, 1, 1});
  CHECK(std::all_of(rows.features.begin(), rows.features.end(), [](float v) { return v == 1.25f; }));
}

TEST_CASE("any prefix and any flipped bit of a table is an error or a data set") {
  const std::string good = "\xef\xbb\xbf\"a\";b;label\r\n1;\"-2e3\";0\r\n 3;4;\"1\"\r\n";
  TemporaryFolder folder;
  folder.write("test.csv", bytes("1,2,0\n"));
  for (std::size_t n = 0; n <= good.size(); ++n) {
    folder.write("train.csv", bytes(good.substr(0, n)));
    (void)read_csv_folder(folder.path());
  }
  folder.write("test.csv", bytes(good));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    FileBytes flipped = bytes(good);
    flipped[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    folder.write("train.csv", flipped);
    const auto pair = read_csv_folder(folder.path());
    if (pair.ok()) CHECK(pair->train.features.size() == 2 * pair->train.size());
  }
}

TEST_CASE("the file name extensions of tables are recognized") {
  for (const char* path : {"a.csv", "a.CSV", "/x/a.csv.gz", "a.b.csv", "a.tsv"}) CHECK(is_csv_path(path));
  for (const char* path : {"csv", ".csv", "a.csv.zip", "a.tsv.zip", "a.csv/"}) CHECK_FALSE(is_csv_path(path));
}

}  // namespace starling::datasets

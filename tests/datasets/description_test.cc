// One description of data: the same numbers from every form of a table, decisions of readers, and data that a
// model judges.
#include "datasets/description.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/random.h"
#include "datasets/catalogue.h"
#include "datasets/info.h"
#include "tests/datasets/files.h"

namespace starling::datasets {
namespace {

FileBytes ascii(const std::string& text) { return {text.begin(), text.end()}; }

template <class T>
FileBytes npy_of(const std::string& type, const std::string& shape, const std::vector<double>& values) {
  const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  FileBytes bytes = {0x93,
                     'N',
                     'U',
                     'M',
                     'P',
                     'Y',
                     1,
                     0,
                     static_cast<std::uint8_t>(header.size()),
                     static_cast<std::uint8_t>(header.size() >> 8)};
  bytes.insert(bytes.end(), header.begin(), header.end());
  for (const double value : values) {
    const T element = static_cast<T>(value);
    std::uint8_t raw[sizeof element];
    std::memcpy(raw, &element, sizeof element);
    bytes.insert(bytes.end(), raw, raw + sizeof element);
  }
  return bytes;
}

// Rows of numbers with labels, for testing and for training.
struct Numbers {
  std::size_t columns = 0;
  std::vector<double> train, test;  // row by row
  std::vector<double> train_labels, test_labels;
};

std::string decimal(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// How a table is written: with a header or without, and with the label behind `label_at` features.
struct Style {
  bool header = true;
  std::size_t label_at = SIZE_MAX;  // SIZE_MAX: last
  std::string name = "label";
};

std::string csv_of(const Numbers& table, bool test, const Style& style = {}) {
  const auto& values = test ? table.test : table.train;
  const auto& labels = test ? table.test_labels : table.train_labels;
  const std::size_t at = std::min(style.label_at, table.columns);
  std::string text;
  const auto add_line = [&](const auto& feature, const std::string& label) {
    for (std::size_t c = 0; c <= table.columns; ++c)
      text += (c > 0 ? "," : "") + (c == at ? label : feature(c - (c > at ? 1 : 0)));
    text += "\n";
  };
  if (style.header) add_line([](std::size_t c) { return "column" + std::to_string(c); }, style.name);
  for (std::size_t r = 0; r < labels.size(); ++r)
    add_line([&](std::size_t c) { return decimal(values[r * table.columns + c]); }, decimal(labels[r]));
  return text;
}

template <class T>
void write_arrays(const TemporaryFolder& folder, const Numbers& table, const std::string& type) {
  const auto shape = [&](std::size_t rows) {
    return std::to_string(rows) + ", " + std::to_string(table.columns);
  };
  folder.write("x_train.npy", npy_of<T>(type, shape(table.train_labels.size()), table.train));
  folder.write("x_test.npy", npy_of<T>(type, shape(table.test_labels.size()), table.test));
  folder.write("y_train.npy", npy_of<std::uint8_t>("|u1", std::to_string(table.train_labels.size()) + ",",
                                                   table.train_labels));
  folder.write("y_test.npy", npy_of<std::uint8_t>("|u1", std::to_string(table.test_labels.size()) + ",",
                                                  table.test_labels));
}

std::vector<float> all_gathered(const Dataset& set) {
  std::vector<std::uint32_t> indices(set.size());
  for (std::uint32_t i = 0; i < indices.size(); ++i) indices[i] = i;
  std::vector<float> values(set.size() * static_cast<std::size_t>(set.shape.size()));
  std::vector<std::int32_t> labels(set.size());
  set.gather(indices, values.data(), labels.data());
  return values;
}

// (value - mean) / deviation, with the population's deviation, as numpy's mean() and std(). Relative to the
// first value, because a sum of doubles near 4e12 is not exact enough for values that differ by 0.01.
std::vector<double> standardized(const Numbers& table, const std::vector<double>& values) {
  std::vector<double> result(values.size());
  for (std::size_t c = 0; c < table.columns; ++c) {
    long double sum = 0, squares = 0;
    const auto rows = static_cast<long double>(table.train_labels.size());
    const double first = table.train[c];
    for (std::size_t i = c; i < table.train.size(); i += table.columns) sum += table.train[i] - first;
    const long double mean = sum / rows;
    for (std::size_t i = c; i < table.train.size(); i += table.columns) {
      const long double distance = table.train[i] - first - mean;
      squares += distance * distance;
    }
    const long double deviation = squares > 0 ? std::sqrt(squares / rows) : 1;
    for (std::size_t i = c; i < values.size(); i += table.columns)
      result[i] = static_cast<double>((values[i] - first - mean) / deviation);
  }
  return result;
}

double greatest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]) / std::max(1.0, std::abs(b[i])));
  return most;
}

// `whole`: numbers that every type can hold.
Numbers draw_table(Random& random, bool whole) {
  Numbers table;
  table.columns = 1 + random.below(5);
  constexpr double kFar[] = {0, 100, 20'240'131, 1.7e9, -4e12};
  std::vector<double> offsets, scales;
  for (std::size_t c = 0; c < table.columns; ++c) {
    offsets.push_back(whole ? 0 : kFar[random.below(5)]);
    scales.push_back(whole ? 1 : std::pow(10.0, static_cast<double>(random.below(5)) - 2));
  }
  const auto draw = [&](std::size_t rows, std::vector<double>& values, std::vector<double>& labels) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < table.columns; ++c)
        values.push_back(whole ? static_cast<double>(random.below(128))
                               : offsets[c] + scales[c] * random.normal());
      labels.push_back(static_cast<double>(r < 3 ? r : random.below(3)));
    }
  };
  draw(20 + random.below(80), table.train, table.train_labels);
  draw(5 + random.below(20), table.test, table.test_labels);
  return table;
}

DataPair load_for(const std::string& path, const Given& given = {}) {
  auto pair = load(path, "", given);
  INFO((pair.ok() ? "" : pair.error().message));
  REQUIRE(pair.ok());
  return std::move(*pair);
}

// For the test part alone, judged by a model that was trained on `pair`.
Given judged_by(const DataPair& pair) {
  return {pair.tokenizer, std::make_shared<const Description>(description_of(pair)), true};
}

std::string refusal_for(const std::string& path, const Given& given) {
  const auto pair = load(path, "", given);
  REQUIRE_FALSE(pair.ok());
  return pair.error().message;
}

}  // namespace

TEST_CASE("a table of numbers of any size is standardized as in double, as CSV and as 64-bit floats") {
  Random random(47);
  for (int k = 0; k < 500; ++k) {
    CAPTURE(k);
    const Numbers table = draw_table(random, false);
    const TemporaryFolder tables, arrays;
    tables.write("train.csv", ascii(csv_of(table, false)));
    tables.write_gzip("test.csv.gz", ascii(csv_of(table, true)));
    write_arrays<double>(arrays, table, "<f8");
    const DataPair a = load_for(tables.path()), b = load_for(arrays.path());
    REQUIRE(greatest_difference(all_gathered(a.train), standardized(table, table.train)) < 1e-6);
    REQUIRE(greatest_difference(all_gathered(a.test), standardized(table, table.test)) < 1e-6);
    REQUIRE(all_gathered(b.train) == all_gathered(a.train));
    REQUIRE(all_gathered(b.test) == all_gathered(a.test));
    REQUIRE(b.train.labels == a.train.labels);
    REQUIRE(description_of(a).fingerprint == description_of(b).fingerprint);
    const std::size_t at = random.below(static_cast<std::uint32_t>(table.columns + 1));
    const Style style{.header = k % 2 == 0, .label_at = at, .name = k % 4 == 0 ? "species" : "target"};
    const TemporaryFolder other;
    other.write_gzip("train.csv.gz", ascii(csv_of(table, false, style)));
    other.write("test.csv", ascii(csv_of(table, true, style)));
    const std::string option = style.header ? style.name : std::to_string(at + 1);
    const DataPair c = load_for(other.path() + ":label=" + option);
    REQUIRE(all_gathered(c.train) == all_gathered(a.train));
    REQUIRE(all_gathered(c.test) == all_gathered(a.test));
    REQUIRE(c.train.labels == a.train.labels);
  }
}

TEST_CASE("a column whose steps are finer than 32-bit floats is named") {
  Numbers table;
  table.columns = 3;
  Random random(7);
  for (int row = 0; row < 300; ++row) {
    // Steps of 1e-8 from 1 on are below a float's, and one value far away prevents an offset.
    table.train.push_back((row == 0 ? 5000 : 1) + 1e-8 * static_cast<double>(random.below(50)));
    table.train.push_back(1000 + static_cast<double>(random.below(50)));
    table.train.push_back(random.normal());
    table.train_labels.push_back(row % 2);
  }
  table.test = {1, 1000, 0, 2, 1001, 1};
  table.test_labels = {0, 1};
  const TemporaryFolder tables, arrays;
  tables.write("train.csv", ascii(csv_of(table, false)));
  tables.write("test.csv", ascii(csv_of(table, true)));
  write_arrays<double>(arrays, table, "<f8");
  for (const TemporaryFolder* folder : {&tables, &arrays}) {
    const DataPair pair = load_for(folder->path());
    const auto& decisions = pair.origin.decisions;
    const auto named = std::ranges::count_if(
        decisions, [](const std::string& d) { return d.find("finer than 32-bit") != std::string::npos; });
    REQUIRE(named == 1);
    CHECK(decisions.back() ==
          (pair.origin.columns.empty() ? "feature 1" : "'column0'") +
              std::string(" has steps that are finer than 32-bit floats, so different numbers become equal"));
  }
}

TEST_CASE("a column with whole numbers that doubles cannot hold is named") {
  const TemporaryFolder tables, arrays;
  const std::string exact = "9007199254740992,18014398509481984,1.5e300,0\n",
                    lost = "9007199254740993,12345678901234567890123,9007199254740994,0\n";
  tables.write("test.csv", ascii("a,b,c,label\n" + exact));
  tables.write("train.csv", ascii("a,b,c,label\n0,1,2,0\n0,1,4,0\n"));
  CHECK(contains(refusal_for(tables.path(), {}), "is '1.5e300'; only finite"));
  tables.write("test.csv", ascii("a,b,c,label\n9007199254740992,18014398509481984,1,0\n"));
  CHECK_FALSE(contains(decisions_text(load_for(tables.path())), "2^53"));
  tables.write("test.csv", ascii("a,b,c,label\n" + lost));
  CHECK(contains(decisions_text(load_for(tables.path())),
                 "'a', 'b' have whole numbers beyond 2^53, whose last digits are lost"));

  const auto write = [&](std::int64_t value) {
    Numbers table;
    table.columns = 2;
    table.train = {1, 2, 3, 4};
    table.test = {1, 2};
    table.train_labels = {0, 0};
    table.test_labels = {0};
    write_arrays<std::int64_t>(arrays, table, "<i8");
    std::fstream file(arrays.path("x_test.npy"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-8, std::ios::end);
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const std::int64_t whole : {INT64_MAX, -9007199254740993}) {
    write(whole);
    CHECK(contains(decisions_text(load_for(arrays.path())), "feature 2 has whole numbers beyond 2^53"));
  }
  write(-9007199254740994);
  CHECK_FALSE(contains(decisions_text(load_for(arrays.path())), "2^53"));
}

TEST_CASE("the labels of a table are in the column of the model's, by its name or its number") {
  const TemporaryFolder folder;
  const auto model_of = [&](const std::string& text, const std::string& option) {
    folder.write("train.csv", ascii(text));
    folder.write("test.csv", ascii(text));
    return judged_by(load_for(folder.path() + option));
  };
  const auto judge = [&](const Given& model, const std::string& text, const std::string& option = "") {
    folder.write("test.csv", ascii(text));
    return load(folder.path() + option, "", model);
  };
  const Given plain = model_of("0,5,6\n1,6,5\n", ":label=1"),
              named = model_of("kind,u,v\n0,5,6\n1,6,5\n", ":label=kind");
  for (const Given& model : {plain, named}) {
    const auto pair = judge(model, "1,7,8\n");
    INFO((pair.ok() ? "" : pair.error().message));
    REQUIRE(pair.ok());
    CHECK(pair->test.labels == FileBytes{1});
    const auto moved = judge(model, "7,8,1\n", ":label=3");
    REQUIRE(moved.ok());
    CHECK(moved->test.labels == FileBytes{1});
    CHECK(moved->test.features == pair->test.features);
    CHECK(contains(decisions_text(*moved), "the labels are column 3 as selected, and the model's data have"));
  }
  CHECK(judge(named, "u,v,kind\n7,8,1\n")->test.labels == FileBytes{1});
  CHECK(judge(named, "kind,u,v\n1,7,8\n")->test.labels == FileBytes{1});
  CHECK(judge(plain, "kind,u,v\n1,7,8\n")->test.labels == FileBytes{1});
  CHECK(label_column("column 12 (\"a (b)\")").name == "a (b)");
  CHECK(label_column("column 12").number == 12);
  CHECK(label_column("columns").number == 0);
}

TEST_CASE("whole numbers are the same rows as CSV, bytes, integers and floats") {
  Random random(48);
  for (int k = 0; k < 500; ++k) {
    CAPTURE(k);
    const Numbers table = draw_table(random, true);
    const TemporaryFolder folder;
    folder.write("train.csv", ascii(csv_of(table, false)));
    folder.write("test.csv", ascii(csv_of(table, true)));
    const DataPair expected = load_for(folder.path());
    REQUIRE(greatest_difference(all_gathered(expected.test), standardized(table, table.test)) < 1e-6);
    const auto same = [&](auto element, const std::string& type) {
      const TemporaryFolder arrays;
      write_arrays<decltype(element)>(arrays, table, type);
      const DataPair pair = load_for(arrays.path());
      REQUIRE(all_gathered(pair.test) == all_gathered(expected.test));
      REQUIRE(all_gathered(pair.train) == all_gathered(expected.train));
    };
    same(std::uint8_t{}, "|u1");
    same(std::int64_t{}, "<i8");
    same(float{}, "<f4");
    same(double{}, "<f8");
  }
}

TEST_CASE("test rows alone are normalized as the model's training rows, to the last digit") {
  Random random(49);
  const Numbers table = draw_table(random, false);
  const TemporaryFolder whole, alone, arrays;
  whole.write("train.csv", ascii(csv_of(table, false)));
  whole.write("test.csv", ascii(csv_of(table, true)));
  alone.write("test.csv", ascii(csv_of(table, true)));
  write_arrays<double>(arrays, table, "<f8");
  std::filesystem::remove(arrays.path("x_train.npy"));
  std::filesystem::remove(arrays.path("y_train.npy"));
  const DataPair trained = load_for(whole.path());
  CHECK(contains(refusal_for(alone.path(), {}), "has no file train.csv"));
  for (const std::string& path : {alone.path(), arrays.path(), whole.path()}) {
    const DataPair judged = load_for(path, judged_by(trained));
    CHECK(judged.train.size() == 0);
    CHECK(all_gathered(judged.test) == all_gathered(trained.test));
    CHECK(judged.test.classes == trained.test.classes);
  }
}

TEST_CASE("test images, records of CIFAR and texts alone are read for a model") {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", images(4));
  folder.write("train-labels-idx1-ubyte", labels({0, 1, 2, 1}));
  folder.write("t10k-images-idx3-ubyte", images(2));
  folder.write("t10k-labels-idx1-ubyte", labels({1, 0}));
  const DataPair trained = load_for(folder.path());
  std::filesystem::remove(folder.path("train-images-idx3-ubyte"));
  const DataPair judged = load_for(folder.path(), judged_by(trained));
  CHECK(all_gathered(judged.test) == all_gathered(trained.test));
  CHECK(judged.test.classes == 3);  // the test labels go up to 1

  const TemporaryFolder cifar;
  cifar.write("test_batch.bin", FileBytes(2 * 3073, 7));
  auto like = std::make_shared<Description>();
  like->shape = {3, 32, 32};
  like->classes = 10;
  like->normalization = {{0.5f, 0.25f}, {0.5f, 0.25f}, {0.5f, 0.25f}};
  CHECK(load_for(cifar.path(), {nullptr, like, true}).test.size() == 2);

  const TemporaryFolder text;
  text.write("train.txt", ascii("abcabcabc"));
  text.write("test.txt", ascii("cba"));
  const DataPair read = load_for(text.path());
  std::filesystem::remove(text.path("train.txt"));
  const DataPair part = load_for(text.path(), judged_by(read));
  CHECK(part.test.tokens == read.test.tokens);
  CHECK(part.train.tokens.empty());
}

TEST_CASE("labels get the numbers of the model's classes, also where not all of them occur") {
  const TemporaryFolder folder;
  folder.write("train.csv", ascii("u,kind\n1,ash\n2,birch\n3,oak\n"));
  folder.write("test.csv", ascii("u,kind\n1,oak\n"));
  const DataPair trained = load_for(folder.path());
  CHECK(trained.origin.class_names == std::vector<std::string>{"ash", "birch", "oak"});
  folder.write("test.csv", ascii("u,kind\n1,oak\n2,birch\n"));
  const DataPair judged = load_for(folder.path(), judged_by(trained));
  CHECK(judged.test.labels == FileBytes{2, 1});
  CHECK(judged.test.classes == 3);
  folder.write("test.csv", ascii("u,kind\n1,elm\n"));
  CHECK(contains(refusal_for(folder.path(), judged_by(trained)),
                 "has the class 'elm', and the model's are ash, birch, oak"));
  folder.write("test.csv", ascii("u,kind\n1,3\n"));
  CHECK(contains(refusal_for(folder.path(), judged_by(trained)), "the model has 3 classes, and"));
}

TEST_CASE("data of another kind than the model's are refused with both kinds") {
  const TemporaryFolder folder;
  folder.write("train.csv", ascii("u,v,label\n1,2,0\n2,1,1\n"));
  folder.write("test.csv", ascii("u,v,label\n1,2,0\n"));
  const Given model = judged_by(load_for(folder.path()));
  folder.write("test.csv", ascii("u,label\n1,0\n"));
  CHECK(contains(refusal_for(folder.path(), model), "the model is for rows of 2 numbers, 2 classes, and"));
  folder.write("test.csv", ascii("v,u,label\n1,2,0\n"));
  CHECK(contains(refusal_for(folder.path(), model), "the model is for rows whose feature 1 is 'u', and"));
  CHECK(contains(refusal_for("glyphs", model),
                 "has images of 1 x 28 x 28 (channels, height, width), 10 classes"));
}

TEST_CASE("other training rows are normalized as the model's, and the decision is told") {
  const TemporaryFolder folder;
  folder.write("train.csv", ascii("u,label\n1,0\n3,1\n"));
  folder.write("test.csv", ascii("u,label\n2,0\n"));
  Given model = judged_by(load_for(folder.path()));
  model.only_test = false;
  const std::string told = "normalized as the model's training data, from which these differ";
  CHECK_FALSE(contains(decisions_text(load_for(folder.path(), model)), told));
  folder.write("train.csv", ascii("u,label\n10,0\n30,1\n"));
  const DataPair pair = load_for(folder.path(), model);
  CHECK(contains(decisions_text(pair), told));
  CHECK(all_gathered(pair.train) == std::vector<float>{8, 28});
}

TEST_CASE("a reader says what it decided for the user") {
  const TemporaryFolder folder;
  const auto decided = [&](const std::string& text, const std::string& option = "") {
    folder.write("train.csv", ascii(text));
    folder.write("test.csv", ascii(text));
    const DataPair pair = load_for(folder.path() + option);
    return std::pair(decisions_text(pair), pair);
  };
  const auto named = decided("east,target,kind\n1,2,0\n2,1,1\n");
  CHECK(contains(named.first, "the labels are column 2 (\"target\"), by its name"));
  CHECK(named.second.origin.label == "column 2 (\"target\")");
  CHECK(named.second.origin.columns == std::vector<std::string>{"east", "kind"});
  CHECK(contains(decided("a,b\n1,0\n2,1\n").first, "the labels are column 2 (\"b\"), the last one"));
  CHECK(decided("a,b\n1,0\n2,1\n", ":label=b").first.empty());
  for (const char* header : {"0,1,2\n", "1,2,3\n"}) {
    const auto numbered = decided(std::string(header) + "5,6,0\n6,5,1\n");
    CHECK(contains(numbered.first, "the first line numbers the columns and is read as a header"));
    CHECK(numbered.second.train.size() == 2);
  }
  const auto record = decided("0,1\n5,0\n");
  CHECK(contains(record.first, "the first line is read as a record, not as a header"));
  CHECK(record.second.train.size() == 2);
  CHECK(contains(decided("1.5,ash\n2.5,oak\n").first, "the first line is read as a record"));
}

TEST_CASE("any change of a sample, a label or the order changes the fingerprint") {
  Dataset set;
  set.shape = {1, 1, 1};
  set.classes = 3;
  set.images = {1, 2, 3};
  set.labels = {0, 1, 2};
  const auto of = [](const Dataset& train) {
    return description_of(DataPair{"x", train, train}).fingerprint;
  };
  const std::uint64_t first = of(set);
  CHECK(first != 0);
  CHECK(of(set) == first);
  Dataset other = set;
  other.labels[1] = 0;
  CHECK(of(other) != first);
  other = set;
  std::swap(other.images[0], other.images[2]);
  CHECK(of(other) != first);
  other = set;
  other.offsets = {1000};  // the same rows, all farther from zero
  CHECK(of(other) != first);
}

}  // namespace starling::datasets

#include "datasets/readers/npy.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "datasets/description.h"
#include "datasets/info.h"
#include "tests/datasets/files.h"

namespace starling::datasets {
namespace {

// An array file with this dictionary as its header, as the format's description defines it.
FileBytes npy_file(const std::string& dictionary, const FileBytes& content, std::uint8_t version = 1) {
  FileBytes bytes{0x93, 'N', 'U', 'M', 'P', 'Y', version, 0};
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::string header = dictionary;
  while ((8 + length_bytes + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  for (std::size_t b = 0; b < length_bytes; ++b)
    bytes.push_back(static_cast<std::uint8_t>(header.size() >> 8 * b));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), content.begin(), content.end());
  return bytes;
}

FileBytes array(const std::string& type, const std::string& shape, const FileBytes& content) {
  return npy_file("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }", content);
}

template <class T>
FileBytes raw(const std::vector<T>& values) {
  FileBytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

FileBytes counting(std::size_t n) {
  FileBytes bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return bytes;
}

FileBytes labels_array(const FileBytes& labels) {
  return array("|u1", "(" + std::to_string(labels.size()) + ",)", labels);
}

Result<Dataset> read_both(const FileBytes& features, const FileBytes& labels) {
  TemporaryFolder folder;
  return read_npy_dataset(folder.write("x.npy", features), folder.write("y.npy", labels));
}

Dataset read_arrays(const FileBytes& features, const FileBytes& labels) {
  auto set = read_both(features, labels);
  INFO((set.ok() ? "" : set.error().message));
  REQUIRE(set.ok());
  return *set;
}

// The error for these features with two good labels, or for these labels with two good samples.
std::string npy_refusal(const FileBytes& features, const std::string& name = "/x.npy'",
                        const FileBytes& labels = labels_array({0, 1})) {
  const auto set = read_both(features, labels);
  REQUIRE_FALSE(set.ok());
  INFO(set.error().message);
  CHECK(contains(set.error().message, name));
  CHECK_FALSE(contains(set.error().message, "\n"));
  return set.error().message;
}
std::string label_refusal(const FileBytes& labels) {
  return npy_refusal(array("|u1", "(2, 3)", counting(6)), "/y.npy'", labels);
}

}  // namespace

TEST_CASE("arrays of bytes stay bytes, arrays of floats become 32-bit floats") {
  const FileBytes labels = labels_array({3, 0});
  const Dataset bytes = read_arrays(array("|u1", "(2, 2, 3)", counting(12)), labels);
  CHECK(bytes.shape == ImageShape{1, 2, 3});
  CHECK(bytes.images == counting(12));
  CHECK(bytes.features.empty());
  CHECK(bytes.labels == FileBytes{3, 0});
  CHECK(bytes.classes == 4);
  const std::vector<float> values = {1.5f, -2, 3e38f, 0, 1e-45f, 7};
  const Dataset floats = read_arrays(array("<f4", "(2, 3)", raw(values)), labels);
  CHECK(floats.shape == ImageShape{3, 1, 1});
  CHECK(floats.features == values);
  CHECK(floats.images.empty());
  const Dataset doubles =
      read_arrays(array("<f8", "(2, 3)", raw(std::vector<double>{1.5, -2, 0.1, 0, 1e-60, 7})), labels);
  REQUIRE(doubles.features.size() == 6);
  const std::vector<double> wanted = {1.5, -2, 0.1, 0, 0, 7};
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(std::abs(static_cast<double>(doubles.features[i]) + doubles.offset_of(i % 3) - wanted[i]) < 1e-6);
}

TEST_CASE("rows are rows whatever their type: bytes, integers and floats of one table are the same numbers") {
  const FileBytes labels = labels_array({0, 1});
  const auto rows = [&](const std::string& type, const auto& values) {
    const Dataset set = read_arrays(array(type, "(2, 3)", raw(values)), labels);
    CHECK(set.shape == ImageShape{3, 1, 1});
    CHECK(set.images.empty());
    return set.features;
  };
  const std::vector<float> expected = {0, 200, 3, 1, 7, 255};
  const auto as = [&]<class T>(T) { return std::vector<T>(expected.begin(), expected.end()); };
  CHECK(rows("|u1", as(std::uint8_t{})) == expected);
  CHECK(rows("<i2", as(std::int16_t{})) == expected);
  CHECK(rows("<u2", as(std::uint16_t{})) == expected);
  CHECK(rows("<i4", as(std::int32_t{})) == expected);
  CHECK(rows("<u4", as(std::uint32_t{})) == expected);
  CHECK(rows("<i8", as(std::int64_t{})) == expected);
  CHECK(rows("<u8", as(std::uint64_t{})) == expected);
  CHECK(rows("<f4", as(float{})) == expected);
  CHECK(rows("<f8", as(double{})) == expected);
  CHECK(rows("|i1", std::vector<std::int8_t>{0, -128, 3, 1, 7, 127}) ==
        std::vector<float>{0, -128, 3, 1, 7, 127});
}

TEST_CASE("labels may have any integer type, as a row or a column") {
  const FileBytes features = array("|u1", "(2, 1)", {1, 2});
  const auto check = [&]<class T>(const std::string& type, T most) {
    CAPTURE(type);
    CHECK(read_arrays(features, array(type, "(2,)", raw(std::vector<T>{most, 0}))).labels ==
          FileBytes{static_cast<std::uint8_t>(most), 0});
    CHECK(read_arrays(features, array(type, "(2, 1)", raw(std::vector<T>{most, 0}))).classes ==
          static_cast<int>(most) + 1);
    if constexpr (std::is_signed_v<T>) {
      const auto message = label_refusal(array(type, "(2,)", raw(std::vector<T>{0, -3})));
      CHECK(contains(message, "the label at [1] is -3; labels run from 0 to at most 255"));
    }
    if constexpr (sizeof(T) > 1)
      CHECK(contains(label_refusal(array(type, "(2,)", raw(std::vector<T>{256, 0}))),
                     "the label at [0] is 256"));
    if constexpr (sizeof(T) == 8)
      CHECK(
          contains(label_refusal(array(type, "(2,)", raw(std::vector<T>{std::numeric_limits<T>::max(), 0}))),
                   "labels run"));
  };
  check("|u1", std::uint8_t{255});
  check("|i1", std::int8_t{127});
  check("<i2", std::int16_t{255});
  check("<i4", std::int32_t{255});
  check("<i8", std::int64_t{255});
  check("<u2", std::uint16_t{255});
  check("<u4", std::uint32_t{255});
  check("<u8", std::uint64_t{255});
}

TEST_CASE("the shape of the array gives the shape of a sample") {
  const FileBytes labels = labels_array({0, 1});
  const auto shape = [&](const std::string& type, const std::string& text, std::size_t elements) {
    return read_arrays(array(type, text, FileBytes(elements * (type == "|u1" ? 1 : 4))), labels).shape;
  };
  CHECK(shape("<f4", "(2, 5)", 10) == ImageShape{5, 1, 1});
  CHECK(shape("|u1", "(2, 5)", 10) == ImageShape{5, 1, 1});
  CHECK(shape("<f4", "(2, 5, 6)", 60) == ImageShape{1, 5, 6});
  CHECK(shape("<f4", "(2, 3, 5, 6)", 180) == ImageShape{3, 5, 6});
  CHECK(shape("|u1", "(2, 5, 6, 3)", 180) == ImageShape{3, 5, 6});
  CHECK(shape("|u1", "(2, 5, 6, 1)", 60) == ImageShape{1, 5, 6});
  CHECK(shape("|u1", "(2, 5, 6, 4)", 240) == ImageShape{4, 5, 6});
}

TEST_CASE("channels that come last are moved to the front") {
  const FileBytes labels = labels_array({0, 1});
  // Each element encodes its position: 100 sample + 10 row + column + 50 channel, for 2x2 pixels and 3
  // channels.
  FileBytes last, first;
  for (int k = 0; k < 2; ++k)
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 2; ++x)
        for (int c = 0; c < 3; ++c) last.push_back(static_cast<std::uint8_t>(100 * k + 10 * y + x + 50 * c));
  for (int k = 0; k < 2; ++k)
    for (int c = 0; c < 3; ++c)
      for (int y = 0; y < 2; ++y)
        for (int x = 0; x < 2; ++x) first.push_back(static_cast<std::uint8_t>(100 * k + 10 * y + x + 50 * c));
  const Dataset bytes = read_arrays(array("|u1", "(2, 2, 2, 3)", last), labels);
  CHECK(bytes.shape == ImageShape{3, 2, 2});
  CHECK(bytes.images == first);
  const Dataset floats =
      read_arrays(array("<f4", "(2, 2, 2, 3)", raw(std::vector<float>(last.begin(), last.end()))), labels);
  CHECK(floats.features == std::vector<float>(first.begin(), first.end()));
}

TEST_CASE("a shape with two readings needs an option, and both parts have one reading") {
  TemporaryFolder folder;
  const std::string x = folder.path("x_train.npy"), t = folder.path("x_test.npy");
  for (const char* name : {"y_train.npy", "y_test.npy"}) folder.write(name, labels_array({0, 1}));
  const auto write = [&](const std::string& train, const std::string& test, std::size_t elements,
                         const std::string& type = "|u1") {
    folder.write("x_train.npy", array(type, train, FileBytes(elements)));
    folder.write("x_test.npy", array(type, test, FileBytes(elements)));
  };
  const auto error = [&](const std::string& option = "") {
    const auto pair = load(folder.path() + option, "");
    return pair ? std::string("none") : pair.error().message;
  };
  const auto shape = [&](const std::string& option = "") {
    return load(folder.path() + option, "")->train.shape;
  };
  for (const char* both : {"(2, 3, 5, 3)", "(2, 5, 3, 9)"}) {
    write(both, both, both[4] == '3' ? 90 : 270);
    CHECK(contains(error(), "x_test.npy' has the shape [2, " + std::string(both + 4, 7) +
                                "], which does not show whether the channels are its second or its last"));
    CHECK(contains(error(), "':channels=first' or ':channels=last'"));
  }
  CHECK(shape(":channels=first") == ImageShape{5, 3, 9});
  CHECK(shape(":channels=last") == ImageShape{9, 5, 3});
  CHECK(load(folder.path() + ":channels=last", "")->name.ends_with(":channels=last"));
  CHECK(contains(error(":channels=middle"), "as in 'photos:channels=last'"));
  // The model's samples decide, too.
  const auto model =
      std::make_shared<Description>(description_of(*load(folder.path() + ":channels=last", "")));
  CHECK(load(folder.path(), "", {.of_model = model})->train.shape == ImageShape{9, 5, 3});

  write("(2, 5, 6, 3)", "(2, 3, 5, 6)", 180);
  CHECK(contains(error(), "x_train.npy' has the shape [2, 5, 6, 3], and '" + t +
                              "' [2, 3, 5, 6]; all lengths but the first must be equal"));
  write("(2, 5, 6, 3)", "(2, 5, 6, 3)", 180);
  CHECK(
      load(folder.path(), "")->origin.decisions ==
      std::vector<std::string>{"the images are [n, height, width, channels], by the lengths of their shape"});
  write("(2, 90)", "(2, 90)", 180);
  CHECK(load(folder.path(), "")->origin.decisions ==
        std::vector<std::string>{
            "the samples are rows of 90 numbers, normalized column by column, neither images nor tokens"});
  CHECK(contains(error(":channels=last"), "has the shape [2, 90], which has no channels"));
  write("(2, 9, 10)", "(2, 9, 10)", 180);
  CHECK(load(folder.path(), "")->origin.decisions.empty());
}

TEST_CASE("all header versions, and any order and spacing of keys, give the same data") {
  const FileBytes labels = labels_array({0, 1});
  for (const std::uint8_t version : {1, 2, 3}) {
    for (const char* dictionary : {
             "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }",
             "{'shape':(2,3),'descr':'|u1','fortran_order':False}",
             "  {  \"fortran_order\" :\tFalse ,\n 'shape' : ( 2 , 3 , ) , \"descr\" : \"|u1\" }  ",
             "{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 3L), }",
         }) {
      CAPTURE(dictionary);
      CHECK(read_arrays(npy_file(dictionary, counting(6), version), labels).features ==
            std::vector<float>{0, 1, 2, 3, 4, 5});
    }
  }
}

TEST_CASE("an invalid header is reported with the place of the error") {
  const auto said = [](const std::string& dictionary) {
    return npy_refusal(npy_file(dictionary, counting(6)));
  };
  CHECK(contains(said(""), "its header has its end where { was expected"));
  CHECK(contains(said("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), } x"),
                 "'x' where nothing but spaces"));
  CHECK(contains(said("{'descr': '|u1', 'fortran_order': False, }"), "lacks the key 'shape'"));
  CHECK(contains(said("{'descr': '|u1', 'descr': '|u1'}"), "has 'descr' twice"));
  CHECK(contains(said("{'color': '|u1'}"), "a key other than 'descr', 'fortran_order' and 'shape'"));
  CHECK(contains(said("{'descr': '|u1' 'shape': (2, 3)}"), "where , or } was expected"));
  CHECK(contains(said("{'fortran_order': 0}"), "where True or False was expected"));
  for (const char* shape :
       {"2", "(2, 3", "(2, -3)", "(2 3)", "(3)", "(2, x)", "(99999999999999999999, 1)", "[2, 3]"}) {
    CAPTURE(shape);
    CHECK(contains(said("{'descr': '|u1', 'fortran_order': False, 'shape': " + std::string(shape) + "}"),
                   "where a shape as in (100, 28, 28) was expected"));
  }
  CHECK(contains(said("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}"),
                 "a record of several fields"));
}

TEST_CASE("a file that is not an array is reported as what it is") {
  CHECK(contains(npy_refusal({'P', 'K', 3, 4, 0, 0, 0, 0}), "is a zip archive, as numpy.savez writes them"));
  CHECK(
      contains(npy_refusal({'h', 'e', 'l', 'l', 'o', ' ', 'y', 'o', 'u'}), "does not begin with 93 'NUMPY'"));
  CHECK(contains(npy_refusal({}), "is truncated: it ends after 0 bytes, inside its header"));
  auto bytes = array("|u1", "(2, 3)", counting(6));
  bytes[6] = 4;
  CHECK(contains(npy_refusal(bytes), "is in version 4.0 of NumPy's format; 1.0, 2.0 and 3.0 are accepted"));
  bytes = npy_file("", {}, 2);
  bytes[11] = 0x7f;
  CHECK(contains(npy_refusal(bytes), "has an absurd header of 2130706"));
}

TEST_CASE("unsupported types and orders are rejected with the way to convert them") {
  const auto said = [](const std::string& type) {
    return npy_refusal(array(type, "(2, 3, 1)", FileBytes(64)));
  };
  for (const char* type : {">f4", "|O", "<i8", "<f2", "|b1", "<U3", "<c8"}) {
    CAPTURE(type);
    CHECK(contains(said(type), "of type '" + std::string(type) +
                                   "', but |u1, <f4 or <f8 is needed; convert it with " +
                                   "np.ascontiguousarray(x, dtype=\"<f4\")"));
  }
  CHECK(contains(said(">f4"), "has big-endian elements of type"));
  CHECK(contains(said("|O"), "has Python objects of type"));
  const std::string order =
      npy_refusal(npy_file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", FileBytes(24)));
  CHECK(contains(order, "in Fortran order"));
  CHECK(contains(order, "np.ascontiguousarray(x, dtype=\"<f4\")"));
  const std::string labels = label_refusal(array("<f4", "(2,)", FileBytes(8)));
  CHECK(contains(labels, "of type '<f4', but |u1, |i1, <i2"));
  CHECK(contains(labels, "np.ascontiguousarray(y, dtype=\"<i8\")"));
}

TEST_CASE("invalid shapes of samples or labels are rejected with the valid ones") {
  for (const char* shape : {"()", "(6,)", "(2, 1, 1, 1, 3)"})
    CHECK(contains(npy_refusal(array("|u1", shape, counting(6))), "[n, features], [n, height, width]"));
  CHECK(contains(npy_refusal(array("|u1", "(0, 3)", {})), "has 0 samples"));
  CHECK(contains(npy_refusal(array("|u1", "(2, 0)", {})), "every length after the first is 1 to 1048576"));
  CHECK(contains(label_refusal(array("|u1", "(2, 10)", counting(20))), "y.argmax(axis=1)"));
  CHECK(contains(label_refusal(array("|u1", "()", {1})), "y.reshape(-1)"));
  CHECK(contains(label_refusal(array("|u1", "(0,)", {})), "has 0 labels"));
}

TEST_CASE("counts, lengths and trailing bytes are checked against the header") {
  const std::string mismatch = npy_refusal(array("|u1", "(3, 2)", counting(6)));
  CHECK(contains(mismatch, "x.npy' has 3 samples, but '"));
  CHECK(contains(mismatch, "y.npy' has 2 labels"));
  CHECK(contains(npy_refusal(array("<f4", "(2, 3)", FileBytes(23))),
                 "is truncated: its header promises the shape [2, 3] (24 bytes), but it has only 23 bytes"));
  CHECK(contains(npy_refusal(array("<f4", "(2, 3)", FileBytes(25))), "has trailing bytes after"));
  CHECK(contains(npy_refusal(array("|u1", "(2, 3)", FileBytes(7))), "has trailing bytes after"));
  CHECK(contains(label_refusal(array("<i8", "(2,)", FileBytes(15))), "is truncated"));
  CHECK(contains(label_refusal(array("<i8", "(2,)", FileBytes(17))), "has trailing bytes"));
}

TEST_CASE("a gzipped array is read and checked like a plain one") {
  TemporaryFolder folder;
  const std::string labels = folder.write_gzip("y.npy.gz", labels_array({0, 1}));
  std::vector<float> values(2 * 200'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto set =
      read_npy_dataset(folder.write_gzip("x.npy.gz", array("<f4", "(2, 200000)", raw(values))), labels);
  REQUIRE(set.ok());
  CHECK(set->features == values);
  auto content = raw(values);
  content.resize(content.size() - 5);
  const auto shorter =
      read_npy_dataset(folder.write_gzip("s.gz", array("<f4", "(2, 200000)", content)), labels);
  REQUIRE_FALSE(shorter.ok());
  CHECK(contains(shorter.error().message, "(1600000 bytes), but it has only 1599995 bytes"));
  content.resize(content.size() + 6);
  const auto longer =
      read_npy_dataset(folder.write_gzip("l.gz", array("<f4", "(2, 200000)", content)), labels);
  REQUIRE_FALSE(longer.ok());
  CHECK(contains(longer.error().message, "has trailing bytes"));
}

TEST_CASE("a hostile header allocates no memory") {
  TemporaryFolder folder;
  std::string labels;
  for (const auto& [type, shape, part] : std::vector<std::array<std::string, 3>>{
           {"<f8", "(2, 1048576, 256)", "(4294967296 bytes), but it has only 100 bytes"},
           {"<f8", "(2, 1048576, 1048576)", "a sample may have at most"},
           {"|u1", "(2, 1048577)", "every length after the first is 1 to 1048576"},
           {"|u1", "(18446744073709551615, 2)", "has 18446744073709551615 samples"},
           {"|u1", "(2, 4294967296, 4294967296)", "every length after"},
       }) {
    CAPTURE(shape);
    CHECK(contains(npy_refusal(array(type, shape, FileBytes(100))), part));
  }
  CHECK(contains(label_refusal(array("<u8", "(134217728,)", FileBytes(100))), "only 100 bytes"));
  CHECK(contains(label_refusal(array("<u8", "(9999999999,)", FileBytes(100))), "has 9999999999 labels"));
  const auto zipped =
      read_npy_dataset(folder.write_gzip("x.gz", array("<f8", "(2, 1048576, 256)", FileBytes(1000))),
                       folder.write("y.npy", labels_array({0, 1})));
  REQUIRE_FALSE(zipped.ok());
  CHECK(contains(zipped.error().message, "but it has only at most "));
}

TEST_CASE("an element that is not finite is reported with its index") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto said = [](const std::vector<float>& values) {
    return npy_refusal(array("<f4", "(2, 1, 3)", raw(values)));
  };
  CHECK(
      contains(said({0, 0, 0, 0, std::nanf(""), 0}), "the element at [1, 0, 1] is nan; only finite numbers"));
  CHECK(contains(said({0, 0, kInfinity, 0, 0, 0}), "the element at [0, 0, 2] is inf"));
  CHECK(contains(said({-kInfinity, 0, 0, 0, 0, 0}), "the element at [0, 0, 0] is -inf"));
  CHECK(contains(npy_refusal(array("<f8", "(2, 1)", raw(std::vector<double>{0, -1e300}))),
                 "the element at [1, 0] is -1e+300; only finite numbers that fit into 32-bit floats"));
}

TEST_CASE("a folder's four arrays make a pair, with either of the usual names") {
  for (const bool keras : {false, true}) {
    TemporaryFolder folder;
    const auto name = [&](const std::string& set, bool features) {
      return keras ? (features ? "x_" : "y_") + set + ".npy"
                   : set + (features ? "_images" : "_labels") + ".npy";
    };
    CHECK_FALSE(is_npy_folder(folder.path()));
    folder.write(name("train", true), array("<f8", "(2, 2)", raw(std::vector<double>{0, 5, 2, 5})));
    CHECK(is_npy_folder(folder.path()));
    folder.write_gzip(name("train", false) + ".gz",
                      array("<i8", "(2,)", raw(std::vector<std::int64_t>{0, 1})));
    folder.write(name("test", true), array("<f4", "(1, 2)", raw(std::vector<float>{4, 6})));
    CHECK(contains(read_npy_folder(folder.path()).error().message,
                   "has no file " + name("test", false) + " (or "));
    folder.write(name("test", false), labels_array({0}));
    const auto pair = read_npy_folder(folder.path());
    REQUIRE(pair.ok());
    CHECK(pair->test.classes == 2);
    float values[2];
    std::int32_t label = 0;
    const std::uint32_t index = 0;
    pair->test.gather({&index, 1}, values, &label);
    CHECK(values[0] == 3);
    CHECK(values[1] == 1);

    folder.write(name("test", false), labels_array({2}));
    CHECK(contains(read_npy_folder(folder.path()).error().message, "test labels go up to 2"));
    folder.write(name("test", true), array("<f4", "(1, 3)", raw(std::vector<float>{1, 2, 3})));
    folder.write(name("test", false), labels_array({1}));
    const auto unlike = read_npy_folder(folder.path());
    REQUIRE_FALSE(unlike.ok());
    CHECK(contains(unlike.error().message, "has the shape [2, 2], and "));
    CHECK(contains(unlike.error().message, "[1, 3]; all lengths but the first must be equal"));
  }
}

TEST_CASE("any prefix of an array and any flipped header bit is an error or a data set") {
  const auto good = array("<f4", "(2, 3)", raw(std::vector<float>{1, 2, 3, 4, 5, 6}));
  const auto labels = labels_array({0, 1});
  for (std::size_t n = 0; n < good.size(); ++n)
    REQUIRE_FALSE(
        read_both(FileBytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)), labels).ok());
  for (std::size_t bit = 0; bit < (good.size() - 24) * 8; ++bit) {
    auto flipped = good;
    flipped[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    const auto set = read_both(flipped, labels);
    if (set.ok()) CHECK(set->features.size() + set->images.size() == 6);
  }
}

}  // namespace starling::datasets

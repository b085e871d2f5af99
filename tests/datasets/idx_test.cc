#include "datasets/readers/idx.h"

#include <cmath>

#include "tests/datasets/files.h"

namespace starling::datasets {
namespace {

// The error for reading these bytes as an IDX file of images.
std::string idx_refusal(const FileBytes& bytes, int dimensions = 3) {
  TemporaryFolder folder;
  const auto read = read_idx(folder.write("file", bytes), dimensions);
  REQUIRE_FALSE(read.ok());
  CHECK(contains(read.error().message, folder.path("file")));
  return read.error().message;
}

}  // namespace

TEST_CASE("a plain and a gzipped IDX file give the same data") {
  TemporaryFolder folder;
  const auto plain = read_idx(folder.write("plain", images(4)), 3);
  const auto zipped = read_idx(folder.write_gzip("zipped", images(4)), 3);
  REQUIRE(plain.ok());
  REQUIRE(zipped.ok());
  REQUIRE(plain->lengths == std::vector<std::uint32_t>{4, 2, 3});
  REQUIRE(plain->bytes.size() == 24);
  REQUIRE(plain->bytes[23] == 23);
  REQUIRE(zipped->bytes == plain->bytes);
}

TEST_CASE("a missing file, or a path that is not a file, is an error with the path") {
  TemporaryFolder folder;
  REQUIRE(contains(read_idx(folder.path("nothing"), 3).error().message, "/nothing' was not found"));
  REQUIRE(contains(read_idx(folder.path(), 3).error().message, "is not a regular file"));
}

TEST_CASE("the error for a wrong magic shows the right one") {
  const auto message = idx_refusal(labels({1, 2, 3}));
  REQUIRE(contains(message, "begins with 00 00 08 01"));
  REQUIRE(contains(message, "images begins with 00 00 08 03"));
  REQUIRE(contains(idx_refusal({'h', 'e', 'l', 'l', 'o'}), "68 65 6c 6c"));
}

TEST_CASE("the error for a truncated file has the number of missing bytes") {
  auto bytes = images(4);
  bytes.resize(bytes.size() - 7);
  const auto message = idx_refusal(bytes);
  REQUIRE(contains(message, "promises 4 images (24 bytes)"));
  REQUIRE(contains(message, "only 2 are there, 7 bytes are missing"));
  REQUIRE(contains(idx_refusal({0, 0, 8, 3, 0, 0}), "ends after 6 bytes, inside the header of 16 bytes"));
  REQUIRE(contains(idx_refusal({}), "ends after 0 bytes"));
}

TEST_CASE("the error for trailing bytes has their number") {
  auto bytes = images(4);
  bytes.resize(bytes.size() + 5);
  REQUIRE(contains(idx_refusal(bytes),
                   "trailing bytes after the 4 images (24 bytes) that its header promises: 5 too many"));
}

TEST_CASE("zero images and absurd dimensions are rejected before any allocation") {
  REQUIRE(contains(idx_refusal(idx({0, 28, 28}, {})), "contains zero images"));
  REQUIRE(contains(idx_refusal(idx({4, 0, 3}, {})), "dimension 2 has length 0, but 1 to 4096 is accepted"));
  REQUIRE(contains(idx_refusal(idx({4, 2, 0xffffffff}, {})), "dimension 3 has length 4294967295"));
  REQUIRE(contains(idx_refusal(idx({0xffffffff, 4096, 4096}, {})), "dimension 1 has length 4294967295"));
  REQUIRE(
      contains(idx_refusal(idx({1u << 27, 4096, 4096}, {1, 2, 3})), "2251799813685245 bytes are missing"));
}

TEST_CASE("a small gzip file cannot claim more than it could hold") {
  TemporaryFolder folder;
  const auto read = read_idx(folder.write_gzip("bomb", idx({1u << 27, 4096, 4096}, FileBytes(1000))), 3);
  REQUIRE_FALSE(read.ok());
  REQUIRE(contains(read.error().message, "but only at most 0 are there"));
}

TEST_CASE("a gzipped file is checked against its header like a plain one") {
  TemporaryFolder folder;
  auto shorter = images(200);
  shorter.resize(shorter.size() - 1);
  REQUIRE(contains(read_idx(folder.write_gzip("short", shorter), 3).error().message,
                   "only 199 are there, 1 bytes are missing"));
  auto longer = images(200);
  longer.push_back(0);
  REQUIRE(contains(read_idx(folder.write_gzip("long", longer), 3).error().message,
                   "trailing bytes after the 200 images"));
}

TEST_CASE("corrupt, truncated and continued gzip streams have three different errors") {
  TemporaryFolder folder;
  FileBytes noise(4096);
  for (std::size_t i = 0; i < noise.size(); ++i)
    noise[i] = static_cast<std::uint8_t>(i * i * 2654435761u >> 11);
  folder.write_gzip("good", idx({4096}, noise));
  std::ifstream in(folder.path("good"), std::ios::binary);
  const FileBytes good{std::istreambuf_iterator<char>(in), {}};

  auto corrupt = good;
  corrupt[corrupt.size() - 6] ^= 1;  // in the checksum at the end
  REQUIRE(contains(read_idx(folder.write("corrupt", corrupt), 1).error().message, "is a corrupt gzip file"));
  corrupt = good;
  corrupt[10] ^= 0x06;  // the first block's type
  REQUIRE(contains(read_idx(folder.write("corrupt", corrupt), 1).error().message, "is a corrupt gzip file"));

  const FileBytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(good.size() / 2));
  REQUIRE(contains(read_idx(folder.write("cut", cut), 1).error().message, "is a truncated gzip file"));

  auto continued = good;
  continued.push_back('x');
  REQUIRE(contains(read_idx(folder.write("continued", continued), 1).error().message,
                   "bytes after the end of its gzip stream"));
}

TEST_CASE("a gzip file of several members is one content") {
  TemporaryFolder folder;
  const auto content = labels({1, 2, 3});
  const auto compressed = [&](std::size_t begin, std::size_t end) {
    folder.write_gzip("part", FileBytes(content.begin() + static_cast<std::ptrdiff_t>(begin),
                                        content.begin() + static_cast<std::ptrdiff_t>(end)));
    std::ifstream in(folder.path("part"), std::ios::binary);
    return FileBytes(std::istreambuf_iterator<char>(in), {});
  };
  FileBytes all = compressed(0, 5);
  for (const FileBytes& more : {compressed(5, 5), compressed(5, content.size())})
    all.insert(all.end(), more.begin(), more.end());
  const auto read = read_idx(folder.write("members.gz", all), 1);
  REQUIRE(read.ok());
  CHECK(read->bytes == FileBytes{1, 2, 3});
  all.resize(all.size() - 3);
  CHECK(contains(read_idx(folder.write("members.gz", all), 1).error().message, "is a truncated gzip file"));
}

TEST_CASE("any prefix of a file and any flipped header bit is an error or a data set") {
  TemporaryFolder folder;
  const auto good = images(3);
  for (std::size_t n = 0; n < good.size(); ++n)
    REQUIRE_FALSE(
        read_idx(
            folder.write("prefix", FileBytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n))), 3)
            .ok());
  for (std::size_t bit = 0; bit < 16 * 8; ++bit) {
    auto flipped = good;
    flipped[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    REQUIRE_FALSE(read_idx(folder.write("flipped", flipped), 3).ok());
  }
}

TEST_CASE("labels and images of different counts name both files and counts") {
  TemporaryFolder folder;
  const auto set = read_idx_dataset(folder.write("i", images(4)), folder.write("l", labels({0, 1, 2})));
  REQUIRE_FALSE(set.ok());
  REQUIRE(contains(set.error().message, "/i' contains 4 images, but '"));
  REQUIRE(contains(set.error().message, "/l' contains 3 labels"));
}

TEST_CASE("the largest label gives the number of classes, at most 255") {
  TemporaryFolder folder;
  const auto pictures = folder.write("i", images(3));
  const auto set = read_idx_dataset(pictures, folder.write("l", labels({7, 0, 2})));
  REQUIRE(set.ok());
  REQUIRE(set->classes == 8);
  REQUIRE(set->shape == ImageShape{1, 2, 3});
  REQUIRE(read_idx_dataset(pictures, folder.write("l", labels({254, 0, 2})))->classes == 255);
  const auto wrong = read_idx_dataset(pictures, folder.write("l", labels({255, 0, 2})));
  REQUIRE_FALSE(wrong.ok());
  REQUIRE(contains(wrong.error().message, "has a label 255; labels run from 0 to at most 254"));
}

TEST_CASE("a folder's four files make a pair that shares the training images' mean and deviation") {
  TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", idx({2, 1, 2}, {0, 0, 255, 255}));
  folder.write("train-labels-idx1-ubyte", labels({0, 1}));
  folder.write_gzip("t10k-images-idx3-ubyte.gz", idx({1, 1, 2}, {51, 255}));
  const auto missing = read_idx_folder(folder.path());
  REQUIRE_FALSE(missing.ok());
  REQUIRE(
      contains(missing.error().message, "has no file t10k-labels-idx1-ubyte (or t10k-labels-idx1-ubyte.gz)"));

  folder.write_gzip("t10k-labels-idx1-ubyte.gz", labels({1}));
  const auto pair = read_idx_folder(folder.path());
  REQUIRE(pair.ok());
  REQUIRE(pair->train.normalization.size() == 1);
  REQUIRE(std::abs(pair->train.normalization[0].mean - 0.5f) < 1e-6f);
  REQUIRE(std::abs(pair->train.normalization[0].deviation - 0.5f) < 1e-6f);
  REQUIRE(pair->test.normalization[0].mean == pair->train.normalization[0].mean);
  REQUIRE(pair->test.classes == 2);
  float floats[2];
  std::int32_t label = 0;
  pair->test.gather(std::vector<std::uint32_t>{0}, floats, &label);
  REQUIRE(std::abs(floats[0] - -0.6f) < 1e-6f);
  REQUIRE(std::abs(floats[1] - 1.0f) < 1e-6f);
  REQUIRE(label == 1);

  // As many copies of MNIST are called.
  TemporaryFolder dotted;
  dotted.write("train-images.idx3-ubyte", idx({2, 1, 2}, {0, 0, 255, 255}));
  dotted.write("train-labels.idx1-ubyte", labels({0, 1}));
  dotted.write_gzip("t10k-images.idx3-ubyte.gz", idx({1, 1, 2}, {51, 255}));
  dotted.write("t10k-labels.idx1-ubyte", labels({1}));
  REQUIRE(is_idx_folder(dotted.path()));
  const auto same = read_idx_folder(dotted.path());
  REQUIRE(same.ok());
  REQUIRE(same->test.images == pair->test.images);

  folder.write_gzip("t10k-labels-idx1-ubyte.gz", labels({2}));
  REQUIRE(contains(read_idx_folder(folder.path()).error().message,
                   "test labels go up to 2, but the training labels only to 1"));
  folder.write_gzip("t10k-labels-idx1-ubyte.gz", labels({1}));
  folder.write_gzip("t10k-images-idx3-ubyte.gz", idx({1, 2, 2}, {1, 2, 3, 4}));
  REQUIRE(contains(read_idx_folder(folder.path()).error().message,
                   "a training sample is bytes of 1 x 1 x 2 (channels, height, width) and a test sample "
                   "bytes of 1 x 2 x 2"));
}

}  // namespace starling::datasets

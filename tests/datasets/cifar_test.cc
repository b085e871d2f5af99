#include "datasets/readers/cifar.h"

#include <cmath>
#include <iostream>

#include "datasets/info.h"
#include "tests/datasets/files.h"

namespace starling::datasets {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;

// Record k has `labels`, and all pixels of its plane c are k + 10 c.
FileBytes records(const std::vector<FileBytes>& labels) {
  FileBytes bytes;
  for (std::size_t k = 0; k < labels.size(); ++k) {
    bytes.insert(bytes.end(), labels[k].begin(), labels[k].end());
    for (std::size_t c = 0; c < 3; ++c)
      bytes.insert(bytes.end(), kPixels / 3, static_cast<std::uint8_t>(k + 10 * c));
  }
  return bytes;
}

std::string cifar_refusal(const FileBytes& bytes, const CifarFormat& format = kCifar10) {
  TemporaryFolder folder;
  Dataset set;
  const auto read = read_cifar(folder.write("batch.bin", bytes), format, set);
  REQUIRE_FALSE(read.ok());
  CHECK(contains(read.error().message, folder.path("batch.bin")));
  CHECK_FALSE(contains(read.error().message, "\n"));
  CHECK(set.size() == 0);
  CHECK(set.images.empty());
  return read.error().message;
}

}  // namespace

TEST_CASE("plain and gzipped CIFAR files of any number of records are joined to one set") {
  TemporaryFolder folder;
  Dataset set;
  std::vector<FileBytes> labels;
  for (std::uint8_t k = 0; k < 100; ++k)
    labels.insert(labels.end(), 6, FileBytes{static_cast<std::uint8_t>(k % 10)});
  REQUIRE(read_cifar(folder.write("a", records(labels)), kCifar10, set).ok());
  REQUIRE(read_cifar(folder.write_gzip("b", records({{9}})), kCifar10, set).ok());
  REQUIRE(set.size() == 601);
  REQUIRE(set.images.size() == 601 * kPixels);
  REQUIRE(set.shape == ImageShape{3, 32, 32});
  REQUIRE(set.classes == 10);
  for (std::size_t k = 0; k < 600; ++k) {
    REQUIRE(set.labels[k] == k / 6 % 10);
    for (std::size_t c = 0; c < 3; ++c)
      REQUIRE(set.images[k * kPixels + c * kPixels / 3] == static_cast<std::uint8_t>(k + 10 * c));
  }
  REQUIRE(set.labels[600] == 9);
  REQUIRE(set.images[601 * kPixels - 1] == 20);
}

TEST_CASE("the fine label of CIFAR-100's two labels is used") {
  TemporaryFolder folder;
  Dataset set;
  REQUIRE(read_cifar(folder.write("train.bin", records({{19, 99}, {0, 7}})), kCifar100, set).ok());
  REQUIRE(set.labels == FileBytes{99, 7});
  REQUIRE(set.classes == 100);
  REQUIRE(set.images[kPixels] == 1);
}

TEST_CASE("a truncated CIFAR file names the record; a wrong label names its record and the valid labels") {
  auto bytes = records({{1}, {2}, {3}});
  bytes.resize(bytes.size() - 100);
  REQUIRE(contains(cifar_refusal(bytes),
                   "record 3 ends after 2973 of the 3073 bytes that a record of CIFAR-10 has"));
  REQUIRE(contains(cifar_refusal({5}), "record 1 ends after 1 of the 3073 bytes"));
  REQUIRE(
      contains(cifar_refusal(records({{1}, {2}}), kCifar100), "record 2 ends after 3072 of the 3074 bytes"));
  REQUIRE(contains(cifar_refusal(records({{1}, {10}})),
                   "record 2 has the label 10; labels of CIFAR-10 run from 0 to 9"));
  REQUIRE(contains(cifar_refusal({}), "contains no record"));
  // A failed read leaves the earlier records unchanged.
  TemporaryFolder folder;
  Dataset set;
  REQUIRE(read_cifar(folder.write("good", records({{4}, {5}})), kCifar10, set).ok());
  REQUIRE_FALSE(read_cifar(folder.write("bad", bytes), kCifar10, set).ok());
  REQUIRE(set.labels == FileBytes{4, 5});
  REQUIRE(set.images.size() == 2 * kPixels);
}

TEST_CASE("any prefix of a CIFAR file is an Error or a data set") {
  TemporaryFolder folder;
  const auto bytes = records({{1}, {2}});
  for (std::size_t size = 0; size <= bytes.size(); size += size % 3073 < 3070 && size % 3073 > 2 ? 307 : 1) {
    Dataset set;
    const bool whole = size > 0 && size % 3073 == 0;
    const auto path =
        folder.write("prefix", FileBytes(bytes.begin(), bytes.begin() + static_cast<long>(size)));
    REQUIRE(read_cifar(path, kCifar10, set).ok() == whole);
  }
}

TEST_CASE("a folder of CIFAR is normalized channel by channel, by its training images") {
  TemporaryFolder root;
  std::filesystem::create_directory(root.path("few"));
  root.write("few/data_batch_2.bin", records({{0}, {1}}));
  root.write_gzip("few/data_batch_5.bin.gz", records({{2}, {3}, {4}}));
  root.write("few/test_batch.bin", records({{9}}));
  const auto pair = load("few", root.path());
  REQUIRE(pair.ok());
  REQUIRE(pair->name == "few");
  REQUIRE(pair->origin.decisions ==
          std::vector<std::string>{"only 2 of the 5 training files of CIFAR-10 exist"});
  REQUIRE(pair->train.labels == FileBytes{0, 1, 2, 3, 4});
  REQUIRE(pair->train.normalization.size() == 3);
  for (std::size_t c = 0; c < 3; ++c) {
    // The values of a plane are 0, 1, 0, 1, 2, plus 10 c.
    const auto& n = pair->train.normalization[c];
    REQUIRE(std::abs(n.mean - (0.8f + 10.0f * static_cast<float>(c)) / 255) < 1e-6f);
    REQUIRE(std::abs(n.deviation - std::sqrt(0.56f) / 255) < 1e-6f);
    REQUIRE(pair->test.normalization[c].mean == n.mean);
  }
  std::vector<float> images(kPixels);
  std::int32_t label = 0;
  const std::uint32_t index = 4;
  pair->train.gather({&index, 1}, images.data(), &label);
  REQUIRE(label == 4);
  for (const float value : images) REQUIRE(std::abs(value - (2 - 0.8f) / std::sqrt(0.56f)) < 1e-4f);
  const Info info = info_of(*pair);
  REQUIRE(info.normalization.size() == 3);
  REQUIRE(info.train_per_class == std::vector<std::size_t>{1, 1, 1, 1, 1, 0, 0, 0, 0, 0});
}

TEST_CASE("a folder that holds only some of CIFAR's files is an error with the missing file") {
  TemporaryFolder root;
  const auto refused = [&](const std::string& name) {
    std::filesystem::create_directory(root.path(name));
    root.write(name + "/" + name, records({{1}}));
    const auto pair = load(root.path(name), "");
    REQUIRE_FALSE(pair.ok());
    return pair.error().message;
  };
  REQUIRE(contains(refused("data_batch_1.bin"), "has no file test_batch.bin (or test_batch.bin.gz)"));
  REQUIRE(contains(refused("test_batch.bin"), "has no file data_batch_1.bin"));
  REQUIRE(contains(refused("train.bin"), "has no file test.bin"));
  REQUIRE(contains(refused("test.bin"), "has no file train.bin"));
}

TEST_CASE("real CIFAR-10 loads") {
  const auto root = real_data_root();
  if (!root || !std::filesystem::is_directory(*root + "/cifar10")) {
    std::cout << "no CIFAR-10 in $STARLING_DATA or ../shared/data: its test is left out\n";
    return;
  }
  const auto pair = load("cifar10", *root);
  REQUIRE(pair.ok());
  const Info info = info_of(*pair);
  REQUIRE(info.train_samples % 10'000 == 0);
  REQUIRE(info.train_samples > 0);
  REQUIRE(info.test_samples > 0);
  REQUIRE(info.classes == 10);
  for (const std::size_t count : info.train_per_class) REQUIRE(count > info.train_samples / 12);
  // Close to the published values of the whole set.
  const float means[] = {0.4914f, 0.4822f, 0.4465f};
  for (std::size_t c = 0; c < 3; ++c) REQUIRE(std::abs(info.normalization[c].mean - means[c]) < 0.02f);
}

}  // namespace starling::datasets

#include "datasets/readers/cifar.h"

#include <array>
#include <cstdint>
#include <vector>

#include "datasets/readers/byte_source.h"

namespace starling::datasets {
namespace {

constexpr ImageShape kShape{3, 32, 32};
constexpr std::size_t kCifarRecordsMax = std::size_t{1} << 24;  // of a set
constexpr std::size_t kBatches = 5;
constexpr const char* kTest10 = "test_batch.bin";
constexpr const char* kTrain100 = "train.bin";
constexpr const char* kTest100 = "test.bin";

std::string batch(std::size_t number) { return "data_batch_" + std::to_string(number) + ".bin"; }

// The training batches of CIFAR-10 that exist, in order.
std::vector<std::string> batches_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (std::size_t number = 1; number <= kBatches; ++number) {
    if (auto path = find_file(folder, batch(number))) paths.push_back(std::move(*path));
  }
  return paths;
}

Result<DataPair> read_pair(const std::string& folder, const CifarFormat& format,
                           const std::vector<std::string>& train, const std::string& test,
                           const Given& given) {
  Dataset train_set, test_set;
  if (auto read = read_cifar(test, format, test_set); !read) return read.error();
  for (const std::string& path : given.only_test ? std::vector<std::string>() : train)
    if (auto read = read_cifar(path, format, train_set); !read) return read.error();
  Origin origin{.source = "CIFAR-" + std::to_string(format.classes), .files = train};
  origin.files.push_back(test);
  if (format.classes == kCifar10.classes && !train.empty() && train.size() < kBatches)
    origin.decisions.push_back("only " + std::to_string(train.size()) + " of the " +
                               std::to_string(kBatches) + " training files of CIFAR-10 exist");
  return join(data_name(folder), folder, std::move(train_set), std::move(test_set), std::move(origin));
}

}  // namespace

Result<Done> read_cifar(const std::string& path, const CifarFormat& format, Dataset& set) {
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  const std::string file = "'" + path + "'";
  const auto label_bytes = static_cast<std::size_t>(format.label_bytes);
  const auto pixels = static_cast<std::size_t>(kShape.size());
  const std::size_t record_bytes = label_bytes + pixels, before = set.size();
  const auto forget = [&](std::string message) {
    set.labels.resize(before);
    set.images.resize(before * pixels);
    return Error{std::move(message)};
  };
  constexpr std::size_t kAtOnce = 256;  // records
  std::vector<std::uint8_t> bytes(kAtOnce * record_bytes);
  for (;;) {
    const auto got = source->read(bytes);
    if (!got) return forget(got.error().message);
    const std::size_t whole = *got / record_bytes;
    for (std::size_t k = 0; k < whole; ++k) {
      const std::uint8_t* record = bytes.data() + k * record_bytes;
      const std::uint8_t label = record[label_bytes - 1];
      if (label >= format.classes)
        return forget(file + ": record " + std::to_string(set.size() - before + 1) + " has the label " +
                      std::to_string(label) + "; labels of CIFAR-" + std::to_string(format.classes) +
                      " run from 0 to " + std::to_string(format.classes - 1));
      set.labels.push_back(label);
      set.images.insert(set.images.end(), record + label_bytes, record + record_bytes);
    }
    if (const std::size_t rest = *got % record_bytes; rest > 0)
      return forget(file + " is truncated: record " + std::to_string(set.size() - before + 1) +
                    " ends after " + std::to_string(rest) + " of the " + std::to_string(record_bytes) +
                    " bytes that a record of CIFAR-" + std::to_string(format.classes) + " has");
    if (set.size() > kCifarRecordsMax)
      return forget(file + " makes the set larger than the " + std::to_string(kCifarRecordsMax) +
                    " images that are accepted");
    if (*got < bytes.size()) break;
  }
  if (set.size() == before) return forget(file + " contains no record; at least one is needed");
  set.shape = kShape;
  set.classes = format.classes;
  return Done{};
}

Result<DataPair> read_cifar_folder(const std::string& folder, const Given& given) {
  const auto train10 = batches_in(folder);
  const auto test10 = find_file(folder, kTest10), train100 = find_file(folder, kTrain100),
             test100 = find_file(folder, kTest100);
  std::vector<std::string> fine;
  if (train100) fine.push_back(*train100);
  if (test10 && (given.only_test || !train10.empty()))
    return read_pair(folder, kCifar10, train10, *test10, given);
  if (test100 && (given.only_test || train100)) return read_pair(folder, kCifar100, fine, *test100, given);
  const bool ten = !train10.empty() || test10;
  const std::string missing = ten ? train10.empty() ? batch(1) : kTest10 : train100 ? kTest100 : kTrain100;
  return Error{
      "'" + folder + "' has no file " + missing + " (or " + missing + ".gz); a folder of CIFAR-" +
      (ten ? "10 contains " + batch(1) + " to " + batch(kBatches) + ", or some of them, and " + kTest10
           : std::string("100 contains ") + kTrain100 + " and " + kTest100)};
}

bool is_cifar_folder(const std::string& folder) {
  return !batches_in(folder).empty() || has_one_of(folder, std::array{kTest10, kTrain100, kTest100});
}

}  // namespace starling::datasets

#include "datasets/readers/idx.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "datasets/readers/byte_source.h"
#include "datasets/readers/parts.h"

namespace starling::datasets {
namespace {

constexpr std::uint32_t kItemsMax = 1u << 27;
constexpr std::uint32_t kSideMax = 4096;  // pixels
constexpr int kClassesMax = 255;
constexpr std::uint8_t kUnsignedByte = 0x08;

constexpr std::array kIdxFiles = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                  "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

std::string kind_of(int dimensions) {
  return dimensions == 1 ? "labels" : dimensions == 3 ? "images" : "items";
}

std::string hexadecimal(const std::uint8_t* bytes) {
  char text[16];
  std::snprintf(text, sizeof text, "%02x %02x %02x %02x", bytes[0], bytes[1], bytes[2], bytes[3]);
  return text;
}

std::uint32_t big_endian(const std::uint8_t* b) {
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

}  // namespace

Result<IdxArray> read_idx(const std::string& path, int dimensions) {
  STARLING_CHECK(dimensions >= 1 && dimensions <= 3);
  auto source = ByteSource::open(path);
  if (!source) return source.error();
  const std::string file = "'" + path + "'";
  const std::string what = kind_of(dimensions);

  std::array<std::uint8_t, 16> header{};
  const std::size_t header_bytes = 4 + 4 * static_cast<std::size_t>(dimensions);
  const auto got = source->read(std::span(header).first(header_bytes));
  if (!got) return got.error();
  const std::array<std::uint8_t, 4> magic{0, 0, kUnsignedByte, static_cast<std::uint8_t>(dimensions)};
  if (*got >= 4 && !std::equal(magic.begin(), magic.end(), header.begin()))
    return Error{file + " begins with " + hexadecimal(header.data()) + ", but an IDX file of " + what +
                 " begins with " + hexadecimal(magic.data())};
  if (*got < header_bytes)
    return Error{file + " is truncated: it ends after " + std::to_string(*got) +
                 " bytes, inside the header of " + std::to_string(header_bytes) +
                 " bytes that an IDX file of " + what + " has"};

  IdxArray array;
  std::uint64_t expected = 1;  // at most 2^27 * 2^12 * 2^12: fits
  for (int d = 0; d < dimensions; ++d) {
    const std::uint32_t length = big_endian(header.data() + 4 + 4 * d);
    if (d == 0 && length == 0) return Error{file + " contains zero " + what + "; at least one is needed"};
    const std::uint32_t most = d == 0 ? kItemsMax : kSideMax;
    if (length == 0 || length > most)
      return Error{file + " has an absurd header: dimension " + std::to_string(d + 1) + " has length " +
                   std::to_string(length) + ", but 1 to " + std::to_string(most) + " is accepted"};
    array.lengths.push_back(length);
    expected *= length;
  }
  const std::uint64_t item_bytes = expected / array.lengths[0];
  const auto truncated = [&](std::uint64_t have, const std::string& at_most) {
    return Error{file + " is truncated: its header promises " + std::to_string(array.lengths[0]) + " " +
                 what + " (" + std::to_string(expected) + " bytes), but only " + at_most +
                 std::to_string(have / item_bytes) + " are there, " + std::to_string(expected - have) +
                 " bytes are missing"};
  };
  const std::uint64_t most =
      source->most_bytes() - std::min<std::uint64_t>(source->most_bytes(), header_bytes);
  if (most < expected) return truncated(most, source->gzipped() ? "at most " : "");

  auto bytes = read_up_to(*source, expected);
  if (!bytes) return bytes.error();
  if (bytes->size() < expected) return truncated(bytes->size(), "");
  std::uint8_t more = 0;
  const auto trailing = source->read({&more, 1});
  if (!trailing) return trailing.error();
  if (*trailing > 0)
    return Error{file + " has trailing bytes after the " + std::to_string(array.lengths[0]) + " " + what +
                 " (" + std::to_string(expected) + " bytes) that its header promises" +
                 (source->gzipped() ? std::string() : ": " + std::to_string(most - expected) + " too many")};
  array.bytes = std::move(*bytes);
  return array;
}

Result<Dataset> read_idx_dataset(const std::string& images_path, const std::string& labels_path) {
  auto labels = read_idx(labels_path, 1);  // the small file first: errors appear sooner
  if (!labels) return labels.error();
  auto images = read_idx(images_path, 3);
  if (!images) return images.error();
  if (images->lengths[0] != labels->lengths[0])
    return Error{"'" + images_path + "' contains " + std::to_string(images->lengths[0]) + " images, but '" +
                 labels_path + "' contains " + std::to_string(labels->lengths[0]) +
                 " labels; each image needs one label"};
  const int classes = *std::max_element(labels->bytes.begin(), labels->bytes.end()) + 1;
  if (classes > kClassesMax)
    return Error{"'" + labels_path + "' has a label " + std::to_string(classes - 1) +
                 "; labels run from 0 to at most " + std::to_string(kClassesMax - 1)};
  Dataset set;
  set.shape = {1, static_cast<int>(images->lengths[1]), static_cast<int>(images->lengths[2])};
  set.classes = classes;
  set.images = std::move(images->bytes);
  set.labels = std::move(labels->bytes);
  return set;
}

Result<DataPair> read_idx_folder(const std::string& folder, const Given& given) {
  return read_parts(folder, kIdxFiles, given, {.source = "IDX"},
                    [](std::span<const std::string> paths) { return read_idx_dataset(paths[0], paths[1]); });
}

bool is_idx_folder(const std::string& folder) { return has_one_of(folder, kIdxFiles); }

}  // namespace starling::datasets

// The safetensors format, tensor by tensor: an 8-byte little-endian header length, a JSON header of names,
// dtypes, shapes and data offsets, and the raw values. The meaning of the tensors is in
// checkpoint.h and peer_state.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "training/runs/records/files.h"

namespace starling::training {

// The metadata of a file.
using Facts = std::map<std::string, std::string>;

// A tensor, as in the header and checked against the file.
struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::size_t begin = 0, end = 0;  // bytes from the start of the data
};
struct SafetensorsHeader {
  Facts metadata;
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::size_t data_begin = 0;             // bytes from the start of the file
  std::size_t data_size = 0;
};

class SafetensorsFile {
 public:
  // Reads the header. Rejects a file that is truncated, whose tensors overlap or leave gaps, or whose lengths
  // are wrong. Allocates nothing larger than the file.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const Facts& metadata() const { return header_.metadata; }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const SafetensorsEntry* find(const std::string& name) const;  // or null
  // The values as floats, from F32, F16, BF16 or F64. REQUIRES: has_floats(entry), and as many values.
  Status read_floats(const SafetensorsEntry& entry, std::span<float> out) const;
  static bool has_floats(const SafetensorsEntry& entry);
  // REQUIRES: `out` is as large as the tensor.
  Status read(const SafetensorsEntry& entry, MutableBytes out) const;

  // Error if the header or the data is damaged. Reads all data if the metadata has its CRC-32.
  Status check_data() const;
  static constexpr const char* kCrc = "crc32";
  static constexpr const char* kHeaderCrc = "header_crc32";

 private:
  SafetensorsFile(InputFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}
  Status check_header() const;
  InputFile file_;
  SafetensorsHeader header_;
};

struct TensorToWrite {
  std::string name;
  const char* dtype;
  std::vector<std::int64_t> shape;
  Bytes bytes;
};
// What comes before the tensors' bytes in a file: the length and the header.
std::string tensors_head(std::span<const TensorToWrite> tensors, const Facts& metadata);

enum class Durability : std::uint8_t {
  plain,    // on the disk when the call returns,
  checked,  // and so is its name, which a power failure does not take back; with the data's CRC-32 in the
            // metadata
};
// `metadata` goes to the header's "__metadata__" (strings to strings). The file is written as
// write_atomically() does, with its `check`.
Status write_tensors(const std::string& path, std::span<const TensorToWrite> tensors, Facts metadata,
                     Durability durability = Durability::plain, const FileCheck& check = {});

// For messages: the first 80 bytes of a name in quotes; "[3, 5]".
std::string show_name(const std::string& name);
std::string show_shape(const std::vector<std::int64_t>& shape);

}  // namespace starling::training

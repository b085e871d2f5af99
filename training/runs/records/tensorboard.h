// TensorBoard's event files: figures by their names, at steps. A record is its length (8 bytes,
// little-endian), that length's masked CRC-32C, an Event in the encoding of Protocol Buffers, and its masked
// CRC-32C (TFRecord); the file's first record names the version "brain.Event:2".
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace starling::training {

class TensorBoard {
 public:
  // A new file in `folder`, which is created if it is missing: events.out.tfevents.SECONDS.HOST.PID.
  static Result<std::unique_ptr<TensorBoard>> open(const std::string& folder);

  // Whether the folder has such files.
  static bool has_files(const std::string& folder);

  // Writes one event with all scalars. `time` in seconds since 1970.
  Status add(double time, std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  const std::string& path() const { return path_; }

 private:
  explicit TensorBoard(std::string path) : path_(std::move(path)) {}
  Status write(const std::string& event);
  std::string path_;
  std::ofstream file_;
};

// Castagnoli's polynomial (iSCSI, RFC 3720, appendix B.4).
std::uint32_t crc32c(const std::string& bytes);

}  // namespace starling::training

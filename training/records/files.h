// Whole files: read with a bound, written so that a reader sees the old or the new one and never a part.
// Errors name the path and the reason the system gave.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace starling::training {

// An open regular file, closed with the value.
class InputFile {
 public:
  // Folders, pipes and devices are refused.
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  std::size_t size() const { return size_; }  // bytes, when it was opened
  // Fills `out` from `offset`; an Error where the file ends before.
  Status read(std::size_t offset, MutableBytes out) const;

 private:
  InputFile(std::string path, int descriptor, std::size_t size);
  std::string path_;
  int descriptor_;
  std::size_t size_;
};

// The text of a file of at most `largest` bytes.
Result<std::string> read_text(const std::string& path, std::size_t largest);

// Writes the parts, one behind the other, to a temporary file beside `path`, flushes it to the disk and
// renames it. On an Error nothing is left behind and an older file at `path` is as it was.
Status write_atomically(const std::string& path, std::span<const Bytes> parts);

// Renames and new names in a folder outlive a power failure once the folder itself is on the disk.
Status flush_folder(const std::string& folder);
Status flush_folder_of(const std::string& file);  // the one it lies in

// Those that are not there are gone already.
void remove_files(const std::vector<std::string>& paths);

}  // namespace starling::training

// Files with secrets: regular files that only their owner can open.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"

namespace starling::transport {

// An open file, which it closes.
class PrivateFile {
 public:
  // Opens a file for reading. The Error continues a sentence that names the file; `missing` (optional) tells
  // whether there is no file.
  static Result<PrivateFile> open(const std::string& path, bool* missing = nullptr);
  // Makes a new, empty file of mode 0600. The Error is a whole sentence; `exists` (optional) tells whether
  // there was a file already.
  static Result<PrivateFile> create(const std::string& path, bool* exists = nullptr);
  explicit PrivateFile(int descriptor) : fd_(descriptor) {}
  PrivateFile(PrivateFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  PrivateFile& operator=(PrivateFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~PrivateFile();

  int fd() const { return fd_; }
  // The first bytes of the file. The Error continues a sentence that names the file.
  Result<std::string> read(std::size_t at_most) const;
  // Writes the whole text and syncs it to the disk. The Error continues a sentence that names the file.
  Status write(const std::string& text) const;
  // Locks the file until it is closed. False: it is locked already. True also if its file system has no
  // locks.
  bool lock() const;

 private:
  int fd_ = -1;
};

// "PATH cannot be written: ...", from errno.
Error unwritable(const std::string& path);

}  // namespace starling::transport

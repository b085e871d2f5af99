// Complete files: read with a bound, written so that a reader sees the old or the new one and never a part.
// Errors name the path and the system's reason.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace starling::training {

// An open regular file, closed with the value.
class InputFile {
 public:
  // Folders, pipes and devices are rejected.
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  std::size_t size() const { return size_; }  // bytes, when it was opened
  // Fills `out` from `offset`; an Error if the file ends before.
  Status read(std::size_t offset, MutableBytes out) const;

 private:
  InputFile(std::string path, int descriptor, std::size_t size);
  std::string path_;
  int descriptor_;
  std::size_t size_;
};

// The text of a file of at most `largest` bytes, which is an input from now on (datasets/inputs.h).
Result<std::string> read_text(const std::string& path, std::size_t largest);
// The same for a file that the program keeps itself and may replace.
Result<std::string> read_own_text(const std::string& path, std::size_t largest);

// Whether a file may be written to `path`: an Error if it is an input of this process under any name, or
// something else than a regular file, such as a folder, a device or a pipe, which a file must not replace.
// Standard output under its own name is accepted.
Status check_target(const std::string& path);

// An Error if `path` is the file `input`, under any name.
Status check_not_input(const std::string& path, const std::string& input);

// The first of BASE + ENDING, BASE-2 + ENDING, BASE-3 + ENDING and so on that does not exist.
std::string free_path(const std::string& base, const std::string& ending);

// Decides on a file that is complete, under its temporary name, whether it may replace the one at its path.
using FileCheck = std::function<Status(const std::string& temporary)>;

// Writes the parts, in order, to a temporary file beside `path`, flushes it to the disk, passes it to `check`
// (which may be empty) and renames it. It has the permissions of the file that it replaces, a new one those
// that the umask leaves. A symbolic link at `path` stays, and its target is replaced. On an Error no
// temporary file remains and an older file at `path` is unchanged. check_target() decides whether `path` is
// accepted; standard output under its own name, /dev/stdout, receives the parts directly and without the
// check.
Status write_atomically(const std::string& path, std::span<const Bytes> parts, const FileCheck& check = {});
// The same with one text.
Status write_text(const std::string& path, std::string_view text);

// After this, renames and new files in the folder outlast a power failure.
Status flush_folder(const std::string& folder);
Status flush_folder_of(const std::string& file);  // the one it lies in

// Ignores files that do not exist.
void remove_files(const std::vector<std::string>& paths);

}  // namespace starling::training

#include "training/runs/records/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "datasets/inputs.h"

namespace starling::training {
namespace {

std::string reason() { return std::strerror(errno); }

// Writes all bytes; false with errno set.
bool write_all(int descriptor, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool is_standard_output(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

Status write_through(const std::string& path, std::span<const Bytes> parts) {
  for (const Bytes part : parts)
    if (!write_all(STDOUT_FILENO, part)) return Error{"cannot write " + path + ": " + reason()};
  return Done{};
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "pipe";
  return S_ISSOCK(mode) ? "socket" : "device";
}

}  // namespace

InputFile::InputFile(std::string path, int descriptor, std::size_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}
InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}
InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<InputFile> InputFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
  if (descriptor < 0) return Error{"cannot read " + path + ": " + reason()};
  InputFile file(path, descriptor, 0);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return Error{"cannot read " + path + ": " + reason()};
  if (S_ISDIR(status.st_mode)) return Error{"cannot read " + path + ": it is a folder, expected a file"};
  if (!S_ISREG(status.st_mode)) return Error{"cannot read " + path + ": it is not a regular file"};
  file.size_ = static_cast<std::size_t>(status.st_size);
  return file;
}

Status InputFile::read(std::size_t offset, MutableBytes out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{"cannot read " + path_ + ": " + reason()};
    if (got == 0) return Error{"cannot read " + path_ + ": it ends too early"};
    offset += static_cast<std::size_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return Done{};
}

Result<std::string> read_text(const std::string& path, std::size_t largest) {
  datasets::note_input(path);
  return read_own_text(path, largest);
}

Result<std::string> read_own_text(const std::string& path, std::size_t largest) {
  const auto file = InputFile::open(path);
  if (!file) return file.error();
  if (file->size() > largest) {
    return Error{"cannot read " + path + ": it has " + std::to_string(file->size()) + " bytes, at most " +
                 std::to_string(largest) + " are accepted"};
  }
  std::string text(file->size(), '\0');
  if (Status status = file->read(0, std::as_writable_bytes(std::span(text))); !status) return status.error();
  return text;
}

std::string free_path(const std::string& base, const std::string& ending) {
  std::string path = base + ending;
  std::error_code ignored;
  for (int k = 2; std::filesystem::exists(path, ignored); ++k) path = base + "-" + std::to_string(k) + ending;
  return path;
}

namespace {

Error is_input(const std::string& path, const std::string& input) {
  return Error{"cannot write " + path + ": it is the file " + input + ", which is read"};
}

}  // namespace

Status check_target(const std::string& path) {
  struct stat status {};
  if (is_standard_output(path) || ::stat(path.c_str(), &status) != 0) return Done{};
  if (!S_ISREG(status.st_mode))
    return Error{"cannot write " + path + ": it is a " + kind_of(status.st_mode) + ", expected a file"};
  if (const auto input = datasets::input_at(path)) return is_input(path, *input);
  return Done{};
}

Status check_not_input(const std::string& path, const std::string& input) {
  std::error_code none;
  if (std::filesystem::equivalent(path, input, none)) return is_input(path, input);
  return Done{};
}

namespace {

// Where a chain of symbolic links leads.
std::string behind_links(const std::string& path) {
  constexpr int kMost = 40;
  std::filesystem::path at = path;
  for (int k = 0; k < kMost; ++k) {
    std::error_code none;
    const auto target = std::filesystem::read_symlink(at, none);
    if (none) break;
    at = at.parent_path() / target;  // an absolute target replaces the whole
  }
  return at.string();
}

}  // namespace

namespace {

// Reading the mask sets it, so it is read before threads begin.
const mode_t kMask = [] {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}();

// The permissions of the file that is replaced, or of a new one.
mode_t mode_for(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0666 & ~kMask;
}

}  // namespace

Status write_atomically(const std::string& named, std::span<const Bytes> parts, const FileCheck& check) {
  if (is_standard_output(named)) return write_through(named, parts);
  if (Status accepted = check_target(named); !accepted) return accepted;
  const std::string path = behind_links(named);
  std::string temporary = path + ".XXXXXX";
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return Error{"cannot write " + path + ": " + reason()};
  const auto fail = [&](const std::string& why, bool open) -> Status {
    if (open) ::close(descriptor);
    ::unlink(temporary.c_str());
    return Error{"cannot write " + path + ": " + why};
  };
  for (const Bytes part : parts) {
    if (!write_all(descriptor, part)) return fail(reason(), true);
  }
  if (::fchmod(descriptor, mode_for(path)) != 0 || ::fsync(descriptor) != 0) return fail(reason(), true);
  if (::close(descriptor) != 0) return fail(reason(), false);
  if (check) {
    if (Status accepted = check(temporary); !accepted) {
      ::unlink(temporary.c_str());
      return accepted;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail(reason(), false);
  return Done{};
}

Status write_text(const std::string& path, std::string_view text) {
  const Bytes bytes = std::as_bytes(std::span(text));
  return write_atomically(path, std::span(&bytes, 1));
}

Status flush_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (flushed) return Done{};
  return Error{"cannot flush the folder " + folder + ": " + std::strerror(error)};
}

Status flush_folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  if (slash == std::string::npos) return flush_folder(".");
  return flush_folder(slash == 0 ? "/" : file.substr(0, slash));
}

void remove_files(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) unlink(path.c_str());
}

}  // namespace starling::training

#include "transport/trust/private_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace starling::transport {

Result<PrivateFile> PrivateFile::open(const std::string& path, bool* missing) {
  PrivateFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  const bool found = file.fd_ >= 0 && ::fstat(file.fd_, &about) == 0;
  if (missing != nullptr) *missing = !found && errno == ENOENT;
  if (!found) return Error{std::string("cannot be read: ") + std::strerror(errno)};
  if (!S_ISREG(about.st_mode)) return Error{"is not a regular file"};
  if ((about.st_mode & 077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(about.st_mode & 07777));
    return Error{"can be read or written by others than its owner (its mode is " + std::string(mode) +
                 "): chmod 600 " + path};
  }
  return file;
}

Result<PrivateFile> PrivateFile::create(const std::string& path, bool* exists) {
  PrivateFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (exists != nullptr) *exists = file.fd_ < 0 && errno == EEXIST;
  if (file.fd_ >= 0) return file;
  if (errno == EEXIST) return Error{path + " already exists; a key never replaces a file"};
  return unwritable(path);
}

PrivateFile::~PrivateFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::string> PrivateFile::read(std::size_t at_most) const {
  std::string text(at_most, '\0');
  const ssize_t size = ::read(fd_, text.data(), text.size());
  if (size < 0) return Error{std::string("cannot be read: ") + std::strerror(errno)};
  text.resize(static_cast<std::size_t>(size));
  return text;
}

Status PrivateFile::write(const std::string& text) const {
  const auto failed = [] { return Error{std::string("cannot be written: ") + std::strerror(errno)}; };
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(fd_, text.data() + done, text.size() - done);
    if (written < 0) return failed();
    done += static_cast<std::size_t>(written);
  }
  if (::fsync(fd_) != 0) return failed();
  return Done{};
}

bool PrivateFile::lock() const { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

Error unwritable(const std::string& path) {
  return Error{path + " cannot be written: " + std::strerror(errno)};
}

}  // namespace starling::transport

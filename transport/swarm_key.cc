#include "transport/swarm_key.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace starling::transport {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kFileBytesMax = 4096;
constexpr const char* kAdvice = "; `starling key new FILE` makes one";

struct File {
  explicit File(int descriptor) : fd(descriptor) {}
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd;
};

std::string to_base64(Bytes bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < n ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) text += k <= n ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::vector<std::byte> bytes;
  std::uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    group = group << 6 | static_cast<std::uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<std::byte>(group >> bits & 0xff));
  }
  return bytes;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

Result<SwarmKey> SwarmKey::read(const std::string& path) {
  const auto refuse = [&](const std::string& why) { return Error{"the key file " + path + " " + why}; };
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (file.fd < 0 || ::fstat(file.fd, &about) != 0)
    return refuse(std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return refuse("is not a regular file");
  if ((about.st_mode & 077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(about.st_mode & 07777));
    return refuse("can be read or written by others than its owner (its mode is " + std::string(mode) +
                  "): chmod 600 " + path);
  }
  std::string text(kFileBytesMax, '\0');
  const ssize_t size = ::read(file.fd, text.data(), text.size());
  if (size < 0) return refuse(std::string("cannot be read: ") + std::strerror(errno));
  const std::string_view words = trimmed(std::string_view(text).substr(0, static_cast<std::size_t>(size)));
  if (words.empty()) return refuse(std::string("is empty") + kAdvice);
  const auto bytes = from_base64(words);
  if (!bytes)
    return refuse(std::string("does not contain a key, which is 32 random bytes in base64") + kAdvice);
  if (bytes->size() != kBytes) {
    return refuse(std::string(bytes->size() < kBytes ? "is too short" : "is too long") + ": it has " +
                  std::to_string(bytes->size()) + " bytes, and a key has 32" + kAdvice);
  }
  SwarmKey key;
  std::copy(bytes->begin(), bytes->end(), key.bytes.begin());
  return key;
}

Result<SwarmKey> SwarmKey::draw() {
  SwarmKey key;
  if (::getrandom(key.bytes.data(), kBytes, 0) != static_cast<ssize_t>(kBytes))
    return Error{std::string("getrandom failed: ") + std::strerror(errno)};
  return key;
}

Status SwarmKey::write(const std::string& path) const {
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.fd < 0) {
    if (errno == EEXIST) return Error{path + " already exists; a key never replaces a file"};
    return Error{path + " cannot be written: " + std::strerror(errno)};
  }
  const std::string text = to_base64(bytes) + "\n";
  const bool whole = ::write(file.fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (whole && ::fsync(file.fd) == 0) return Done{};
  const Error error{path + " cannot be written: " + std::strerror(errno)};
  ::unlink(path.c_str());
  return error;
}

}  // namespace starling::transport

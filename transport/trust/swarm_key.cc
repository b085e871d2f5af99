#include "transport/trust/swarm_key.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "transport/trust/private_file.h"

namespace starling::transport {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kFileBytesMax = 4096;
constexpr const char* kAdvice = "; `starling key new FILE` makes one";

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

std::string_view next_word(std::string_view& line) {
  line = trimmed(line);
  const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

// One line: a key and perhaps a mark. The Error continues a sentence that names the file.
Result<SwarmKeys::Entry> parse_entry(std::string_view line) {
  using Mark = SwarmKeys::Mark;
  const auto bytes = from_base64(next_word(line));
  const std::string_view word = next_word(line);
  const bool is_mark = word.empty() || word == "next" || word == "old";
  if (!bytes || !is_mark)
    return Error{std::string("does not contain a key, which is 32 random bytes in base64") + kAdvice};
  if (bytes->size() != SwarmKey::kBytes) {
    return Error{std::string(bytes->size() < SwarmKey::kBytes ? "is too short" : "is too long") +
                 ": it has " + std::to_string(bytes->size()) + " bytes, and a key has 32" + kAdvice};
  }
  SwarmKeys::Entry entry;
  std::copy(bytes->begin(), bytes->end(), entry.key.bytes.begin());
  if (!word.empty()) entry.mark = word == "next" ? Mark::next : Mark::old;
  return entry;
}

}  // namespace

Result<SwarmKey> SwarmKey::draw() {
  SwarmKey key;
  if (::getrandom(key.bytes.data(), kBytes, 0) != static_cast<ssize_t>(kBytes))
    return Error{std::string("getrandom failed: ") + std::strerror(errno)};
  return key;
}

Result<SwarmKeys> SwarmKeys::read(const std::string& path) {
  const auto refuse = [&](const std::string& why) { return Error{"the key file " + path + " " + why}; };
  const auto file = PrivateFile::open(path);
  if (!file) return refuse(file.error().message);
  const auto text = file->read(kFileBytesMax);
  if (!text) return refuse(text.error().message);
  SwarmKeys keys;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const auto entry = parse_entry(line);
    if (!entry) return refuse(entry.error().message);
    if (keys.entries.size() == kMax) return refuse("has more than " + std::to_string(kMax) + " keys");
    keys.entries.push_back(*entry);
  }
  if (keys.entries.empty()) return refuse(std::string("is empty") + kAdvice);
  if (keys.entries.front().mark != Mark::none)
    return refuse(
        "begins with a key that is marked 'next' or 'old'; the first key, with which peers dial, has no "
        "mark");
  return keys;
}

std::string SwarmKeys::text() const {
  std::string text;
  for (const Entry& entry : entries) {
    text += to_base64(entry.key.bytes);
    if (entry.mark == Mark::next) text += " next";
    if (entry.mark == Mark::old) text += " old";
    text += '\n';
  }
  return text;
}

Status SwarmKeys::create(const std::string& path) const {
  const auto file = PrivateFile::create(path);
  if (!file) return file.error();
  const Status written = file->write(text());
  if (written) return Done{};
  ::unlink(path.c_str());
  return Error{path + " " + written.error().message};
}

Status SwarmKeys::replace(const std::string& path) const {
  struct stat about {};
  const std::unique_ptr<char, decltype(&std::free)> target(::realpath(path.c_str(), nullptr), &std::free);
  if (!target || ::stat(target.get(), &about) != 0) return unwritable(path);
  std::string temporary = std::string(target.get()) + ".XXXXXX";
  const PrivateFile file(::mkostemp(temporary.data(), O_CLOEXEC));  // of mode 0600
  if (file.fd() < 0) return unwritable(path);
  Status replaced = Done{};
  if (::fchown(file.fd(), about.st_uid, about.st_gid) != 0) {
    replaced = unwritable(path);
  } else if (const Status written = file.write(text()); !written) {
    replaced = Error{path + " " + written.error().message};
  } else if (::rename(temporary.c_str(), target.get()) != 0) {
    replaced = unwritable(path);
  }
  if (!replaced) ::unlink(temporary.c_str());
  return replaced;
}

Result<SwarmKeys::Step> SwarmKeys::rotate() {
  const auto next = std::ranges::find(entries, Mark::next, &Entry::mark);
  if (next != entries.end()) {
    std::rotate(entries.begin(), next, next + 1);
    entries.front().mark = Mark::none;
    for (auto former = entries.begin() + 1; former != entries.end(); ++former) former->mark = Mark::old;
    return Step::promoted;
  }
  if (std::erase_if(entries, [](const Entry& entry) { return entry.mark == Mark::old; }) > 0) {
    STARLING_CHECK(!entries.empty());
    return Step::dropped;
  }
  if (entries.size() == kMax)
    return Error{"the file already has " + std::to_string(kMax) + " keys, the most there may be"};
  const auto drawn = SwarmKey::draw();
  if (!drawn) return drawn.error();
  entries.push_back({*drawn, Mark::next});
  return Step::added;
}

}  // namespace starling::transport

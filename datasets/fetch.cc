#include "datasets/fetch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "datasets/download.h"
#include "datasets/readers/tar.h"
#include "datasets/sha256.h"

namespace starling::datasets {
namespace {

namespace fs = std::filesystem;

std::string reason() { return std::strerror(errno); }

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10'000) return std::to_string(bytes) + " bytes";
  if (bytes < 10'000'000) return std::to_string(bytes / 1000) + " kB";
  return std::to_string(bytes / 1'000'000) + " MB";
}

std::string last_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::optional<std::uint64_t> size_of(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? std::nullopt : std::optional<std::uint64_t>(size);
}

// A file that is being written, locked against other processes.
class Part {
 public:
  static Result<Part> open(const std::string& path) {
    Part part(path);
    part.descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (part.descriptor_ < 0) return Error{"'" + path + "' cannot be written: " + reason()};
    if (::flock(part.descriptor_, LOCK_EX | LOCK_NB) != 0)
      return Error{"'" + path + "' is being written by another program; wait until it ends"};
    part.size_ = size_of(path).value_or(0);
    return part;
  }
  ~Part() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Part(Part&& other) noexcept
      : path_(std::move(other.path_)),
        size_(other.size_),
        descriptor_(std::exchange(other.descriptor_, -1)) {}

  std::uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  Status cut(std::uint64_t size) {
    if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) return unwritable();
    size_ = size;
    return Done{};
  }
  // Appends at its end.
  Status append(const void* data, std::size_t size) {
    const char* bytes = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::pwrite(descriptor_, bytes, size, static_cast<off_t>(size_));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return unwritable();
      bytes += written;
      size -= static_cast<std::size_t>(written);
      size_ += static_cast<std::uint64_t>(written);
    }
    return Done{};
  }
  // Flushes it to disk and renames it.
  Status finish(const std::string& name) {
    if (::fsync(descriptor_) != 0) return unwritable();
    if (::rename(path_.c_str(), name.c_str()) != 0)
      return Error{"'" + name + "' cannot be written: " + reason()};
    return Done{};
  }
  void remove() { ::unlink(path_.c_str()); }

 private:
  explicit Part(std::string path) : path_(std::move(path)) {}
  Error unwritable() const {
    return Error{"'" + path_ + "' cannot be written: " + reason() +
                 "; the part that is present is kept, and the same command resumes it"};
  }

  std::string path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

// Whether all members of an archive are unpacked.
bool is_unpacked(const PublishedFile& file, const std::string& folder) {
  return !file.members.empty() && std::ranges::all_of(file.members, [&](const PublishedFile::Member& member) {
    return size_of(folder + "/" + last_name(member.path)) == member.size;
  });
}

// Whether the published file is present. An Error if another file has its name.
Result<bool> is_there(const PublishedFile& file, const std::string& folder) {
  if (is_unpacked(file, folder)) return true;
  const std::string path = folder + "/" + file.name;
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  const auto sha256 = sha256_of_file(path);
  if (!sha256) return sha256.error();
  if (*sha256 == file.sha256) return file.members.empty();
  return Error{"'" + path + "' already exists and is not the published file (its SHA-256 is " + *sha256 +
               "); move it, or choose another folder with --into"};
}

Status check_space(const PublishedSet& set, const std::vector<bool>& there, const std::string& folder) {
  std::uint64_t needed = 0;
  for (std::size_t i = 0; i < set.files.size(); ++i) {
    if (there[i]) continue;
    const PublishedFile& file = set.files[i];
    needed += file.size - std::min(file.size, size_of(folder + "/" + file.name + ".part").value_or(0));
    for (const PublishedFile::Member& member : file.members) needed += member.size;
  }
  struct statvfs disk {};
  if (needed == 0 || ::statvfs(folder.c_str(), &disk) != 0) return Done{};
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free >= needed) return Done{};
  return Error{"'" + folder + "' has " + bytes_text(free) + " free, and " + set.name + " needs " +
               bytes_text(needed) + "; free some space, or choose a folder on another disk with --into"};
}

// Downloads the rest of the file, over several connections if necessary.
Status complete(const PublishedFile& file, const std::string& url, Part& part, const FetchOptions& options,
                std::uint64_t& bytes_fetched) {
  const auto wrong_size = [&](std::uint64_t size) {
    return Error{url + " has " + std::to_string(size) + " bytes, but the published file has " +
                 std::to_string(file.size) + "; try a mirror (--from)"};
  };
  if (part.size() > file.size)
    if (Status cut = part.cut(0); !cut) return cut;
  Incoming incoming;
  incoming.begin = [&](std::uint64_t from, std::optional<std::uint64_t> size) -> Status {
    if (size && *size != file.size) return wrong_size(*size);
    return part.size() == from ? Status(Done{}) : part.cut(from);
  };
  incoming.take = [&](std::span<const std::byte> bytes) -> Status {
    if (part.size() + bytes.size() > file.size) {
      const Error too_long = wrong_size(part.size() + bytes.size());
      if (Status cut = part.cut(0); !cut) return cut;
      return too_long;
    }
    if (Status added = part.append(bytes.data(), bytes.size()); !added) return added;
    bytes_fetched += bytes.size();
    if (options.progress) options.progress(file, part.size());
    return Done{};
  };
  for (int attempt = 1; part.size() < file.size; ++attempt) {
    const std::uint64_t before = part.size();
    const auto done = download(url, before, incoming);
    if (part.size() == file.size && (done || part.size() > before)) break;
    if (done) return wrong_size(part.size());
    if (done.error().no_such_part && before > 0) {
      if (Status cut = part.cut(0); !cut) return cut;
    } else if (!done.error().worth_trying || attempt >= options.attempts) {
      const std::string kept = part.size() > 0
                                   ? " after " + std::to_string(part.size()) + " of " +
                                         std::to_string(file.size) + " bytes; the same command resumes it"
                                   : "";
      return Error{done.error().message + (done.error().worth_trying ? kept : "")};
    }
    std::this_thread::sleep_for(options.pause);
  }
  return Done{};
}

Status unpack(const PublishedFile& file, const std::string& archive, const std::string& folder) {
  std::optional<Part> part;
  std::string name;
  std::size_t found = 0;
  Status opened = Done{};
  const auto wanted = [&](const std::string& path, std::uint64_t size) {
    if (std::ranges::none_of(file.members,
                             [&](const auto& it) { return it.path == path && it.size == size; }))
      return false;
    name = folder + "/" + last_name(path);
    auto made = Part::open(name + ".part");
    if (!made) {
      opened = made.error();
    } else {
      part.emplace(std::move(*made));
      opened = part->cut(0);
    }
    return true;
  };
  const auto take = [&](std::span<const std::uint8_t> bytes) -> Status {
    if (!opened) return opened;
    if (!bytes.empty()) return part->append(bytes.data(), bytes.size());
    ++found;
    const Status finished = part->finish(name);
    part.reset();
    return finished;
  };
  if (Status unpacked = unpack_tar(archive, wanted, take); !unpacked) return unpacked;
  if (found == file.members.size()) return Done{};
  return Error{"'" + archive + "' contains " + std::to_string(found) + " of the expected " +
               std::to_string(file.members.size()) + " files"};
}

Status fetch_file(const PublishedFile& file, const std::string& base, const FetchOptions& options,
                  std::uint64_t& bytes_fetched) {
  const std::string path = options.into + "/" + file.name, url = base + "/" + file.name;
  auto part = Part::open(path + ".part");
  if (!part) return part.error();
  // A part that an earlier attempt left may belong to another file; then the download starts again.
  for (bool resumed = part->size() > 0;; resumed = false) {
    if (Status whole = complete(file, url, *part, options, bytes_fetched); !whole) return whole;
    const auto sha256 = sha256_of_file(part->path());
    if (!sha256) return sha256.error();
    if (*sha256 == file.sha256) break;
    if (!resumed) {
      part->remove();
      return Error{url + " is not the published file: its SHA-256 is " + *sha256 + ", not " + file.sha256 +
                   "; it was deleted; try a mirror (--from)"};
    }
    if (Status cut = part->cut(0); !cut) return cut;
  }
  if (file.members.empty()) return part->finish(path);
  if (Status unpacked = unpack(file, part->path(), options.into); !unpacked) return unpacked;
  part->remove();
  return Done{};
}

}  // namespace

Result<Fetched> fetch(const PublishedSet& set, const FetchOptions& options) {
  std::string base = options.base.empty() ? set.base : options.base;
  while (base.ends_with('/')) base.pop_back();
  std::error_code error;
  fs::create_directories(options.into, error);
  if (error || !fs::is_directory(options.into))
    return Error{"the folder '" + options.into +
                 "' cannot be created: " + (error ? error.message() : "a file has its name")};
  Fetched fetched;
  std::vector<bool> there;
  for (const PublishedFile& file : set.files) {
    const auto found = is_there(file, options.into);
    if (!found) return found.error();
    there.push_back(*found);
    fetched.already_there += *found;
    ++fetched.files;
  }
  if (Status fits = check_space(set, there, options.into); !fits) return fits.error();
  for (std::size_t i = 0; i < set.files.size(); ++i) {
    if (there[i]) continue;
    if (Status done = fetch_file(set.files[i], base, options, fetched.bytes); !done) return done.error();
  }
  return fetched;
}

}  // namespace starling::datasets

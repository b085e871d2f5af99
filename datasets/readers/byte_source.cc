#include "datasets/readers/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "datasets/inputs.h"

namespace starling::datasets {
namespace {

constexpr std::array<std::uint8_t, 2> kGzipMagic = {0x1f, 0x8b};
constexpr std::uint64_t kDeflateRatioMax = 1032;  // deflate's greatest expansion (zlib's technical notes)

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::optional<std::string> find_file(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  std::vector<std::string> names{name};
  if (const std::size_t at = name.find("-idx"); at != std::string::npos)
    names.push_back(std::string(name).replace(at, 1, "."));        // as many copies of MNIST are called
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {  // Train.txt, TRAIN.txt, TRAIN.TXT
    for (const std::size_t letters : {std::size_t{1}, name.rfind('.'), name.size()}) {
      std::string other = names[i];
      for (char& c : std::span(other).first(std::min(letters, other.size())))
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      names.push_back(std::move(other));
    }
  }
  for (const std::string& one : names) {
    for (const char* ending : {"", ".gz"}) {
      const std::string path = (std::filesystem::path(folder) / (one + ending)).string();
      if (std::filesystem::exists(path, ignored)) return path;
    }
  }
  return std::nullopt;
}

Result<std::vector<std::string>> find_files(const std::string& folder, std::span<const char* const> names) {
  std::vector<std::string> paths;
  for (const std::string name : names) {
    if (auto path = find_file(folder, name)) {
      paths.push_back(std::move(*path));
      continue;
    }
    std::string all;
    for (const char* each : names) all += (all.empty() ? "" : ", ") + std::string(each);
    return Error{"'" + folder + "' has no file " + name + " (or " + name + ".gz); such a folder contains " +
                 all};
  }
  return paths;
}

bool has_one_of(const std::string& folder, std::span<const char* const> names) {
  return std::ranges::any_of(names, [&](const char* name) { return find_file(folder, name).has_value(); });
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

bool has_ending(std::string_view path, std::initializer_list<std::string_view> endings) {
  const auto ends = [&path](std::string_view ending) {
    return path.size() > ending.size() && same_letters(path.substr(path.size() - ending.size()), ending);
  };
  if (ends(".gz")) path.remove_suffix(3);
  return std::ranges::any_of(endings, ends);
}

struct ByteSource::State {
  std::string path;
  std::unique_ptr<std::FILE, CloseFile> file;
  std::uint64_t file_bytes = 0;
  bool gzip = false;
  bool ended = false;  // the gzip stream is complete
  z_stream stream{};
  std::array<std::uint8_t, 1 << 16> input{};

  ~State() {
    if (gzip) inflateEnd(&stream);
  }

  Result<std::size_t> read_file(std::span<std::uint8_t> out) {
    const std::size_t n = std::fread(out.data(), 1, out.size(), file.get());
    if (n < out.size() && std::ferror(file.get()))
      return Error{"'" + path + "' cannot be read: " + std::strerror(errno)};
    return n;
  }

  Result<std::size_t> fill() {
    const auto got = read_file(input);
    stream.next_in = input.data();
    stream.avail_in = got ? static_cast<uInt>(*got) : 0;
    return got;
  }

  // A gzip file is one member after the other (RFC 1952, section 2.2).
  Status begin_member() {
    if (stream.avail_in == 0) {
      if (const auto got = fill(); !got) return got.error();
    }
    ended = stream.avail_in == 0;
    if (ended) return Done{};
    if (*stream.next_in != kGzipMagic[0])
      return Error{"'" + path + "' has bytes after the end of its gzip stream"};
    STARLING_CHECK(inflateReset(&stream) == Z_OK);
    return Done{};
  }

  Result<std::size_t> read_gzip(std::span<std::uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size() && !ended) {
      if (stream.avail_in == 0) {
        const auto got = fill();
        if (!got) return got;
        if (*got == 0) return Error{"'" + path + "' is a truncated gzip file: fetch it again"};
      }
      const std::size_t room = std::min<std::size_t>(out.size() - done, 1u << 30);
      stream.next_out = out.data() + done;
      stream.avail_out = static_cast<uInt>(room);
      const int status = inflate(&stream, Z_NO_FLUSH);
      done += room - stream.avail_out;
      if (status == Z_STREAM_END) {
        if (const auto next = begin_member(); !next) return next.error();
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return Error{"'" + path + "' is a corrupt gzip file (" + (stream.msg ? stream.msg : "bad data") +
                     "): fetch it again"};
      }
    }
    return done;
  }
};

ByteSource::ByteSource(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none)
    return Error{"'" + path + "' cannot be read: " + error.message()};
  if (!std::filesystem::exists(status)) return Error{"'" + path + "' was not found"};
  if (!std::filesystem::is_regular_file(status)) return Error{"'" + path + "' is not a regular file"};

  auto state = std::make_unique<State>();
  state->path = path;
  state->file.reset(std::fopen(path.c_str(), "rb"));
  if (!state->file) return Error{"'" + path + "' cannot be opened: " + std::strerror(errno)};
  state->file_bytes = std::filesystem::file_size(path, error);
  if (error) return Error{"'" + path + "' cannot be read: " + error.message()};

  note_input(path);

  std::array<std::uint8_t, 2> start{};
  const auto got = state->read_file(start);
  if (!got) return got.error();
  std::rewind(state->file.get());
  if (*got == 2 && start == kGzipMagic) {
    constexpr int kGzipOnly = 15 + 16;
    STARLING_CHECK(inflateInit2(&state->stream, kGzipOnly) == Z_OK);
    state->gzip = true;
  }
  return ByteSource(std::move(state));
}

Result<std::size_t> ByteSource::read(std::span<std::uint8_t> out) {
  return state_->gzip ? state_->read_gzip(out) : state_->read_file(out);
}

bool ByteSource::gzipped() const { return state_->gzip; }

std::uint64_t ByteSource::most_bytes() const {
  return state_->gzip ? state_->file_bytes * kDeflateRatioMax : state_->file_bytes;
}

Result<std::vector<std::uint8_t>> read_up_to(ByteSource& source, std::uint64_t wanted) {
  constexpr std::uint64_t kFirst = 1 << 20;
  // Reserves address space up to this size at once, so that growing copies nothing; the system provides
  // memory only for pages that are written. Larger contents grow as they arrive, because a header may lie.
  constexpr std::uint64_t kReserved = std::uint64_t{1} << 30;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(std::min({wanted, source.most_bytes(), kReserved}));
  while (bytes.size() < wanted) {
    const std::size_t before = bytes.size();
    bytes.resize(std::min<std::uint64_t>(wanted, std::max<std::uint64_t>(kFirst, 2 * before)));
    const std::size_t asked = bytes.size() - before;
    const auto got = source.read(std::span(bytes).subspan(before));
    if (!got) return got.error();
    if (*got < asked) {
      bytes.resize(before + *got);
      break;
    }
  }
  return bytes;
}

}  // namespace starling::datasets

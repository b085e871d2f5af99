#include "datasets/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace starling::datasets {
namespace {

constexpr std::uint64_t kDeflateRatioMax = 1032;  // deflate's greatest expansion (zlib's technical notes)

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::optional<std::string> find_file(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* ending : {"", ".gz"}) {
    const std::string path = (std::filesystem::path(folder) / (name + ending)).string();
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return std::nullopt;
}

struct ByteSource::State {
  std::string path;
  std::unique_ptr<std::FILE, CloseFile> file;
  std::uint64_t file_bytes = 0;
  bool gzip = false;
  bool ended = false;  // the gzip stream has said so
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

  Result<std::size_t> read_gzip(std::span<std::uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size() && !ended) {
      if (stream.avail_in == 0) {
        const auto got = read_file(input);
        if (!got) return got;
        if (*got == 0)
          return Error{"'" + path + "' is a gzip file that breaks off before its end: fetch it again"};
        stream.next_in = input.data();
        stream.avail_in = static_cast<uInt>(*got);
      }
      const std::size_t room = std::min<std::size_t>(out.size() - done, 1u << 30);
      stream.next_out = out.data() + done;
      stream.avail_out = static_cast<uInt>(room);
      const int status = inflate(&stream, Z_NO_FLUSH);
      done += room - stream.avail_out;
      if (status == Z_STREAM_END) {
        ended = true;
        std::uint8_t more;
        const auto behind = stream.avail_in > 0 ? Result<std::size_t>(std::size_t{1}) : read_file({&more, 1});
        if (!behind) return behind;
        if (*behind > 0)
          return Error{
              "'" + path +
              "' has bytes behind the end of its gzip stream; one gzip stream and nothing else is right"};
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
  if (!std::filesystem::exists(status)) return Error{"'" + path + "' was not found"};
  if (!std::filesystem::is_regular_file(status)) return Error{"'" + path + "' is not a regular file"};

  auto state = std::make_unique<State>();
  state->path = path;
  state->file.reset(std::fopen(path.c_str(), "rb"));
  if (!state->file) return Error{"'" + path + "' cannot be opened: " + std::strerror(errno)};
  state->file_bytes = std::filesystem::file_size(path, error);
  if (error) return Error{"'" + path + "' cannot be read: " + error.message()};

  std::array<std::uint8_t, 2> start{};
  const auto got = state->read_file(start);
  if (!got) return got.error();
  std::rewind(state->file.get());
  if (*got == 2 && start[0] == 0x1f && start[1] == 0x8b) {
    constexpr int kGzipOnly = 15 + 16;
    STARLING_CHECK(inflateInit2(&state->stream, kGzipOnly) == Z_OK);
    state->gzip = true;
  }
  return ByteSource(std::move(state));
}

Result<std::size_t> ByteSource::read(std::span<std::uint8_t> out) {
  return state_->gzip ? state_->read_gzip(out) : state_->read_file(out);
}

bool ByteSource::gzipped() const {
  return state_->gzip;
}

std::uint64_t ByteSource::most_bytes() const {
  return state_->gzip ? state_->file_bytes * kDeflateRatioMax : state_->file_bytes;
}

Result<std::vector<std::uint8_t>> read_up_to(ByteSource& source, std::uint64_t wanted) {
  constexpr std::uint64_t kFirst = 1 << 20;
  // Room is claimed at once, so that no second copy is ever made of what is there; the system gives memory
  // only for what is written. Not for more than the file can hold, and whoever promises more than this gets
  // it as it comes.
  constexpr std::uint64_t kClaimed = std::uint64_t{1} << 30;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(std::min({wanted, source.most_bytes(), kClaimed}));
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

#include "training/runs/records/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

namespace starling::training {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

constexpr const char* kFileName = "events.out.tfevents.";

// TFRecord's mask: a checksum of data that contains checksums must differ from them.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8U; }

template <class Number>
void put_fixed(std::string& out, Number number) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof bytes);
}

// Protocol Buffers: a field is its number and wire type, then the value.
enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void put_tag(std::string& out, std::uint32_t field, WireType type) { put_varint(out, field << 3 | type); }
void put_bytes(std::string& out, std::uint32_t field, const std::string& bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5.
std::string event_at(double time, std::int64_t step) {
  std::string event;
  put_tag(event, 1, kFixed64);
  put_fixed(event, time);
  put_tag(event, 2, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

}  // namespace

std::uint32_t crc32c(const std::string& bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

bool TensorBoard::has_files(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with(kFileName)) return true;
  return false;
}

Result<std::unique_ptr<TensorBoard>> TensorBoard::open(const std::string& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return Error{"cannot make the folder " + folder + ": " + problem.message()};
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') std::strcpy(host, "host");
  const std::time_t now = std::time(nullptr);
  std::unique_ptr<TensorBoard> board(new TensorBoard(folder + "/" + kFileName + std::to_string(now) + "." +
                                                     host + "." + std::to_string(::getpid())));
  board->file_.open(board->path_, std::ios::binary | std::ios::trunc);
  std::string first = event_at(static_cast<double>(now), 0);
  put_bytes(first, 3, "brain.Event:2");
  if (const Status written = board->write(first); !written) return written.error();
  return board;
}

Status TensorBoard::write(const std::string& event) {
  std::string length;
  put_fixed(length, static_cast<std::uint64_t>(event.size()));
  std::string record = length;
  put_fixed(record, masked(crc32c(length)));
  record += event;
  put_fixed(record, masked(crc32c(event)));
  errno = 0;
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
  file_.flush();
  if (file_) return Done{};
  return Error{"cannot write " + path_ + ": " + (errno != 0 ? std::strerror(errno) : "the disk may be full")};
}

Status TensorBoard::add(double time, std::int64_t step,
                        const std::vector<std::pair<std::string, double>>& scalars) {
  // Summary: value = 1; in a value: tag = 1, simple_value = 2.
  std::string summary;
  for (const auto& [tag, scalar] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);
    put_tag(value, 2, kFixed32);
    put_fixed(value, static_cast<float>(scalar));
    put_bytes(summary, 1, value);
  }
  std::string event = event_at(time, step);
  put_bytes(event, 5, summary);
  return write(event);
}

}  // namespace starling::training

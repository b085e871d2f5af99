#include "training/runs/records/safetensors.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>

#include "models/layout_text.h"
#include "training/runs/records/json.h"

namespace starling::training {

std::string show_name(const std::string& name) { return "'" + name.substr(0, 80) + "'"; }

std::string show_shape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i < 8; ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() > 8 ? ", ...]" : "]");
}

namespace {

constexpr std::size_t kLargestHeader = 16 << 20;  // bytes; a thousand tensors take some hundred kilobytes
constexpr std::size_t kAlignment = 64;            // of the first float in the file
constexpr const char* kMetadata = "__metadata__";
// Tensors, and keys of the metadata; a shape has depth 3.
constexpr JsonLimits kHeaderLimits{.keys = models::kTensorsMax + 1, .depth = 8};

// Bits of one element; 0 for a dtype that safetensors does not know.
std::size_t element_bits(const std::string& dtype) {
  static const std::map<std::string, std::size_t> kBits = {
      {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"BOOL", 8}, {"U8", 8},   {"I8", 8},
      {"F8_E5M2", 8},     {"F8_E4M3", 8},     {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"BF16", 16},   {"I32", 32}, {"U32", 32}, {"F32", 32},
      {"C64", 64},        {"F64", 64},        {"I64", 64},    {"U64", 64}};
  const auto found = kBits.find(dtype);
  return found == kBits.end() ? 0 : found->second;
}

Result<SafetensorsEntry> read_entry(const std::string& name, const Json& value, std::size_t data_size) {
  const auto refuse = [&](const std::string& why) { return Error{"tensor " + show_name(name) + " " + why}; };
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return refuse("has no dtype, shape or data_offsets");
  }
  SafetensorsEntry entry;
  entry.name = name;
  const Json& dtype = value["dtype"];
  if (!dtype.is_string() || element_bits(dtype.get<std::string>()) == 0)
    return refuse("has an unknown dtype");
  entry.dtype = dtype.get<std::string>();

  const Json& shape = value["shape"];
  std::size_t bits = element_bits(entry.dtype);
  if (!shape.is_array()) return refuse("has no shape");
  for (const Json& extent : shape) {
    if (!extent.is_number_unsigned()) return refuse("has a shape that is not made of whole numbers");
    const auto n = extent.get<std::uint64_t>();
    if (n > 2 * data_size || (n > 0 && bits > 8 * data_size / n)) return refuse("is larger than the file");
    bits *= n;
    entry.shape.push_back(static_cast<std::int64_t>(n));
  }

  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return refuse("has no two data_offsets");
  }
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data_size) return refuse("has data_offsets outside of the file");
  if (8 * (end - begin) != bits)
    return refuse("has data_offsets that do not fit its shape " + show_shape(entry.shape));
  entry.begin = begin;
  entry.end = end;
  return entry;
}

Result<Facts> read_metadata_entry(const Json& value) {
  Facts metadata;
  if (value.is_null()) return metadata;
  const Error wrong{std::string(kMetadata) + " does not map strings to strings"};
  if (!value.is_object()) return wrong;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return wrong;
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Everything that the file alone can tell: the header is well formed and its tensors tile the data.
Result<SafetensorsHeader> read_header(const InputFile& file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) return Error{"it is too short for a header"};
  if (Status status = file.read(0, std::as_writable_bytes(std::span(&length, 1))); !status)
    return status.error();
  if (length > file.size() - sizeof length) return Error{"its header is longer than the file"};
  if (length > kLargestHeader)
    return Error{"its header is longer than " + std::to_string(kLargestHeader) + " bytes"};

  std::string text(length, '\0');
  if (Status status = file.read(sizeof length, std::as_writable_bytes(std::span(text))); !status) {
    return status.error();
  }
  const auto json = parse_json(text, kHeaderLimits);
  if (!json) return Error{"its header " + json.error().message};
  if (!json->is_object()) return Error{"its header is not a JSON object"};

  SafetensorsHeader header;
  header.data_begin = sizeof length + length;
  header.data_size = file.size() - header.data_begin;
  for (const auto& [name, value] : json->items()) {
    if (name == kMetadata) {
      auto metadata = read_metadata_entry(value);
      if (!metadata) return metadata.error();
      header.metadata = std::move(*metadata);
      continue;
    }
    auto entry = read_entry(name, value, header.data_size);
    if (!entry) return entry.error();
    header.entries.push_back(std::move(*entry));
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  std::size_t covered = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != covered) {
      return Error{"tensor " + show_name(entry.name) +
                   (entry.begin < covered ? " overlaps another" : " leaves a gap before it")};
    }
    covered = entry.end;
  }
  if (covered != header.data_size) {
    return Error{"its tensors cover " + std::to_string(covered) + " bytes, but it holds " +
                 std::to_string(header.data_size)};
  }
  return header;
}

// As zlib's crc32() of all the data.
class Crc {
 public:
  void add(Bytes bytes) {
    while (!bytes.empty()) {
      const Bytes piece = bytes.first(std::min<std::size_t>(bytes.size(), 1 << 30));
      value_ = crc32(value_, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
      bytes = bytes.subspan(piece.size());
    }
  }
  std::string text() const {
    char text[9];
    std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(value_));
    return text;
  }

 private:
  uLong value_ = crc32(0, nullptr, 0);
};

// Models in other formats, by their first bytes.
struct OtherFormat {
  std::string_view start;
  const char* what;
};
constexpr std::array<OtherFormat, 5> kOthers = {{
    {"PK\3\4",
     "a zip archive, as torch.save writes them; write the tensors with safetensors.torch.save_file"},
    {"\x80\2", "a pickle of Python; write the tensors with safetensors.torch.save_file"},
    {"GGUF", "a model in GGUF"},
    {"\x89HDF\r\n", "an HDF5 file"},
    {"\x93NUMPY", "a NumPy array"},
}};

// What a file is that has no header of safetensors; empty: it is not known.
std::string other_format(const InputFile& file) {
  std::array<char, 8> bytes{};
  const std::size_t size = std::min(bytes.size(), file.size());
  if (!file.read(0, std::as_writable_bytes(std::span(bytes).first(size)))) return "";
  const std::string_view start(bytes.data(), size);
  for (const OtherFormat& other : kOthers)
    if (start.starts_with(other.start)) return other.what;
  // ONNX's ModelProto: field 1, the version of the format, then the producer's name or the graph.
  constexpr char kVersionMax = 32;
  const bool onnx = size > 2 && start[0] == 0x08 && start[1] > 0 && start[1] < kVersionMax &&
                    (start[2] == 0x12 || start[2] == 0x3a);
  return onnx ? "a graph in ONNX, which is for other programs; name the file from which it was exported" : "";
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  auto header = read_header(*file);
  if (!header) {
    if (header.error().message.find(path) != std::string::npos)
      return header.error();  // from the file system, with the path
    const std::string other = other_format(*file);
    return Error{path + " is not a usable safetensors file: " +
                 (other.empty() ? header.error().message : "it is " + other)};
  }
  return SafetensorsFile(std::move(*file), std::move(*header));
}

const SafetensorsEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::find_if(header_.entries.begin(), header_.entries.end(),
                                  [&](const SafetensorsEntry& entry) { return entry.name == name; });
  return found == header_.entries.end() ? nullptr : &*found;
}

Status SafetensorsFile::read(const SafetensorsEntry& entry, MutableBytes out) const {
  STARLING_CHECK(out.size() == entry.end - entry.begin);
  return file_.read(header_.data_begin + entry.begin, out);
}

namespace {

// IEEE 754 binary16.
float half_to_float(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float value = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                      : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                      : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

bool SafetensorsFile::has_floats(const SafetensorsEntry& entry) {
  return entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16" || entry.dtype == "F64";
}

Status SafetensorsFile::read_floats(const SafetensorsEntry& entry, std::span<float> out) const {
  STARLING_CHECK(has_floats(entry));
  if (entry.dtype == "F32") return read(entry, std::as_writable_bytes(out));
  std::vector<std::byte> bytes(entry.end - entry.begin);
  if (Status got = read(entry, bytes); !got) return got;
  const std::size_t size = element_bits(entry.dtype) / 8;
  STARLING_CHECK(bytes.size() == out.size() * size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::byte* at = bytes.data() + i * size;
    if (entry.dtype == "F64") {
      out[i] = static_cast<float>(load<double>(at));
    } else if (entry.dtype == "F16") {
      out[i] = half_to_float(load<std::uint16_t>(at));
    } else {  // the upper half of a float
      out[i] = std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(at)} << 16);
    }
  }
  return Done{};
}

namespace {

// Where the CRC of the header is in its text; npos: nowhere.
std::size_t place_of_crc(const std::string& head, const std::string& value) {
  const std::string before = std::string("\"") + SafetensorsFile::kHeaderCrc + "\":\"";
  const std::size_t at = head.find(before + value + '"');
  return at == std::string::npos ? at : at + before.size();
}

// Stands in the place of the header's CRC while that is computed.
const std::string kNoCrc = "00000000";

}  // namespace

Status SafetensorsFile::check_header() const {
  const auto told = metadata().find(kHeaderCrc);
  if (told == metadata().end()) return Done{};
  std::string head(header_.data_begin, '\0');
  if (Status read = file_.read(0, std::as_writable_bytes(std::span(head))); !read) return read;
  const std::size_t at = place_of_crc(head, told->second);
  if (at == std::string::npos || told->second.size() != kNoCrc.size())
    return Error{path() + " is damaged: its header's CRC-32 cannot be read"};
  head.replace(at, kNoCrc.size(), kNoCrc);
  Crc crc;
  crc.add(std::as_bytes(std::span(head)));
  if (crc.text() == told->second) return Done{};
  return Error{path() + " is damaged: its header has the CRC-32 " + crc.text() + ", not " + told->second};
}

Status SafetensorsFile::check_data() const {
  if (Status header = check_header(); !header) return header;
  const auto told = metadata().find(kCrc);
  if (told == metadata().end()) return Done{};
  Crc crc;
  std::vector<std::byte> piece(1 << 20);
  for (std::size_t at = 0; at < header_.data_size;) {
    const MutableBytes part = MutableBytes(piece).first(std::min(piece.size(), header_.data_size - at));
    if (Status read = file_.read(header_.data_begin + at, part); !read) return read;
    crc.add(part);
    at += part.size();
  }
  if (crc.text() == told->second) return Done{};
  return Error{path() + " is damaged: its data has the CRC-32 " + crc.text() + ", not " +
               told->second.substr(0, 8)};
}

std::string tensors_head(std::span<const TensorToWrite> tensors, const Facts& metadata) {
  Json header = Json::object();
  header[kMetadata] = metadata;
  std::size_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::size_t begin = end;
    end += tensor.bytes.size();
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = to_text(header);
  text.resize((sizeof(std::uint64_t) + text.size() + kAlignment - 1) / kAlignment * kAlignment -
                  sizeof(std::uint64_t),
              ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

Status write_tensors(const std::string& path, std::span<const TensorToWrite> tensors, Facts metadata,
                     Durability durability, const FileCheck& check) {
  if (durability == Durability::checked) {
    Crc crc;
    for (const TensorToWrite& tensor : tensors) crc.add(tensor.bytes);
    metadata[SafetensorsFile::kCrc] = crc.text();
    metadata[SafetensorsFile::kHeaderCrc] = kNoCrc;
  }
  std::string head = tensors_head(tensors, metadata);
  if (durability == Durability::checked) {
    Crc crc;
    crc.add(std::as_bytes(std::span(head)));
    const std::size_t at = place_of_crc(head, kNoCrc);
    STARLING_CHECK(at != std::string::npos);
    head.replace(at, kNoCrc.size(), crc.text());
  }
  std::vector<Bytes> parts = {std::as_bytes(std::span(head))};
  for (const TensorToWrite& tensor : tensors) parts.push_back(tensor.bytes);
  if (Status written = write_atomically(path, parts, check); !written || durability == Durability::plain)
    return written;
  return flush_folder_of(path);
}

}  // namespace starling::training

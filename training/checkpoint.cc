#include "training/checkpoint.h"

#include <algorithm>
#include <map>
#include <set>

#include "training/files.h"
#include "training/json.h"

namespace starling::training {
namespace {


constexpr std::size_t kLargestHeader = 16 << 20;  // bytes; a thousand tensors take some hundred kilobytes
constexpr std::size_t kAlignment = 64;            // of the first float in the file
constexpr const char* kMetadata = "__metadata__";

// One entry of the header, checked on its own.
struct Entry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::size_t begin = 0, end = 0;  // bytes from the start of the data
};

struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<Entry> entries;  // ordered by `begin`
  std::size_t data_begin = 0;  // bytes from the start of the file
  std::size_t data_size = 0;
};

std::string show(const std::string& name) {
  return "'" + name.substr(0, 80) + "'";
}

std::string show(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i < 8; ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() > 8 ? ", ...]" : "]");
}

// Bytes of one element; 0 for a dtype that safetensors does not know.
std::size_t element_size(const std::string& dtype) {
  static const std::map<std::string, std::size_t> kSizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};
  const auto found = kSizes.find(dtype);
  return found == kSizes.end() ? 0 : found->second;
}

// The header's text, in which no name may stand twice; discarded where it is not JSON.
Json parse_unique(const std::string& text, bool& twice) {
  std::set<std::string> names;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key && !names.insert(parsed.get<std::string>()).second) {
      twice = true;
    }
    return true;
  };
  return Json::parse(text, watch, /*allow_exceptions=*/false);
}

Result<Entry> read_entry(const std::string& name, const Json& value, std::size_t data_size) {
  const auto refuse = [&](const std::string& why) { return Error{"tensor " + show(name) + " " + why}; };
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return refuse("has no dtype, shape or data_offsets");
  }
  Entry entry;
  entry.name = name;
  const Json& dtype = value["dtype"];
  if (!dtype.is_string() || element_size(dtype.get<std::string>()) == 0)
    return refuse("has an unknown dtype");
  entry.dtype = dtype.get<std::string>();

  const Json& shape = value["shape"];
  std::size_t bytes = element_size(entry.dtype);
  if (!shape.is_array()) return refuse("has no shape");
  for (const Json& extent : shape) {
    if (!extent.is_number_unsigned()) return refuse("has a shape that is not made of whole numbers");
    const auto n = extent.get<std::uint64_t>();
    if (n > data_size || (n > 0 && bytes > data_size / n)) return refuse("is larger than the file");
    bytes *= n;
    entry.shape.push_back(static_cast<std::int64_t>(n));
  }

  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return refuse("has no two data_offsets");
  }
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data_size) return refuse("has data_offsets outside of the file");
  if (end - begin != bytes) return refuse("has data_offsets that do not fit its shape " + show(entry.shape));
  entry.begin = begin;
  entry.end = end;
  return entry;
}

Result<std::map<std::string, std::string>> read_metadata_entry(const Json& value) {
  std::map<std::string, std::string> metadata;
  const Error wrong{std::string(kMetadata) + " does not map strings to strings"};
  if (!value.is_object()) return wrong;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return wrong;
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Everything that the file alone can tell: the header is well formed and its tensors tile the data.
Result<Header> read_header(const InputFile& file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) return Error{"it is too short for a header"};
  if (Status status = file.read(0, std::as_writable_bytes(std::span(&length, 1))); !status)
    return status.error();
  if (length > file.size() - sizeof length) return Error{"its header would be longer than the file"};
  if (length > kLargestHeader)
    return Error{"its header is longer than " + std::to_string(kLargestHeader) + " bytes"};

  std::string text(length, '\0');
  if (Status status = file.read(sizeof length, std::as_writable_bytes(std::span(text))); !status) {
    return status.error();
  }
  bool twice = false;
  const Json json = parse_unique(text, twice);
  if (!json.is_object()) return Error{"its header is not a JSON object"};
  if (twice) return Error{"a name stands in its header twice"};

  Header header;
  header.data_begin = sizeof length + length;
  header.data_size = file.size() - header.data_begin;
  for (const auto& [name, value] : json.items()) {
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
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t covered = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != covered) {
      return Error{"tensor " + show(entry.name) +
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

Error in_file(const std::string& path, const Error& error) {
  if (error.message.find(path) != std::string::npos)
    return error;  // from the file system, which says it already
  return Error{path + " is not a usable safetensors file: " + error.message};
}

}  // namespace

Status write_safetensors(const std::string& path, const models::Layout& layout, std::span<const float> arena,
                         const std::map<std::string, std::string>& metadata) {
  STARLING_CHECK(arena.size() == layout.arena_size());
  Json header = Json::object();
  header[kMetadata] = metadata;
  std::size_t end = 0;
  for (const auto& tensor : layout.tensors()) {
    const std::size_t begin = end;
    end += tensor.size * sizeof(float);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = to_text(header);
  text.resize((sizeof(std::uint64_t) + text.size() + kAlignment - 1) / kAlignment * kAlignment -
                  sizeof(std::uint64_t),
              ' ');
  const std::uint64_t length = text.size();

  std::vector<Bytes> parts = {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(text))};
  for (const auto& tensor : layout.tensors()) {
    parts.push_back(std::as_bytes(arena.subspan(tensor.offset, tensor.size)));
  }
  return write_atomically(path, parts);
}

Result<Checkpoint> read_safetensors(const std::string& path, const models::Layout& layout) {
  const auto file = InputFile::open(path);
  if (!file) return file.error();
  auto header = read_header(*file);
  if (!header) return in_file(path, header.error());

  std::map<std::string, const Entry*> by_name;
  for (const Entry& entry : header->entries) by_name[entry.name] = &entry;
  for (const auto& tensor : layout.tensors()) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end())
      return Error{path + " holds another model: it has no tensor " + show(tensor.name)};
    const Entry& entry = *found->second;
    if (entry.dtype != "F32") {
      return Error{path + ": tensor " + show(tensor.name) + " has dtype " + entry.dtype + ", expected F32"};
    }
    if (entry.shape != tensor.shape) {
      return Error{path + " holds another model: tensor " + show(tensor.name) + " has shape " +
                   show(entry.shape) + ", expected " + show(tensor.shape)};
    }
  }
  if (by_name.size() != layout.tensors().size()) {
    for (const auto& tensor : layout.tensors()) by_name.erase(tensor.name);
    return Error{path + " holds another model: tensor " + show(by_name.begin()->first) +
                 " does not belong to this one"};
  }

  Checkpoint checkpoint;
  checkpoint.arena.assign(layout.arena_size(), 0.0f);
  for (const auto& tensor : layout.tensors()) {
    const std::span<float> values = std::span(checkpoint.arena).subspan(tensor.offset, tensor.size);
    const std::size_t offset = header->data_begin + by_name.at(tensor.name)->begin;
    if (Status status = file->read(offset, std::as_writable_bytes(values)); !status) return status.error();
  }
  checkpoint.metadata = std::move(header->metadata);
  return checkpoint;
}

Result<std::map<std::string, std::string>> read_metadata(const std::string& path) {
  const auto file = InputFile::open(path);
  if (!file) return file.error();
  auto header = read_header(*file);
  if (!header) return in_file(path, header.error());
  return std::move(header->metadata);
}

std::map<std::string, std::string> model_metadata(const models::ModelText& model) {
  std::map<std::string, std::string> metadata{{"model", model.name}};
  if (!model.layers.empty()) metadata["layers"] = model.layers;
  return metadata;
}

std::optional<models::ModelText> model_of(const std::map<std::string, std::string>& metadata) {
  const auto name = metadata.find("model"), layers = metadata.find("layers");
  if (name == metadata.end()) return std::nullopt;
  return models::ModelText{name->second, layers == metadata.end() ? std::string() : layers->second};
}

}  // namespace starling::training

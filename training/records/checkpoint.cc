#include "training/records/checkpoint.h"

namespace starling::training {

bool is_parameter(const Facts& metadata, const std::string& tensor) {
  return !metadata.contains(kFullCheckpoint) ||
         !(tensor.starts_with("optimizer.") || tensor.starts_with("sampler."));
}

namespace {

std::vector<TensorToWrite> tensors_of(const models::Layout& layout, std::span<const float> arena) {
  STARLING_CHECK(arena.size() == layout.arena_size());
  std::vector<TensorToWrite> tensors;
  for (const auto& tensor : layout.tensors())
    tensors.push_back(
        {tensor.name, "F32", tensor.shape, std::as_bytes(arena.subspan(tensor.offset, tensor.size))});
  return tensors;
}

}  // namespace

Status write_safetensors(const std::string& path, const models::Layout& layout, std::span<const float> arena,
                         const Facts& metadata) {
  return write_tensors(path, tensors_of(layout, arena), metadata);
}

std::string to_safetensors(const models::Layout& layout, std::span<const float> arena,
                           const Facts& metadata) {
  const auto tensors = tensors_of(layout, arena);
  std::string text = tensors_head(tensors, metadata);
  for (const TensorToWrite& tensor : tensors)
    text.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return text;
}

Result<Checkpoint> read_safetensors(const std::string& path, const models::Layout& layout) {
  auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  if (Status whole = file->check_data(); !whole) return whole.error();

  std::map<std::string, const SafetensorsEntry*> by_name;
  for (const SafetensorsEntry& entry : file->entries()) {
    if (is_parameter(file->metadata(), entry.name)) by_name[entry.name] = &entry;
  }
  for (const auto& tensor : layout.tensors()) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end())
      return Error{path + " holds another model: it has no tensor " + show_name(tensor.name)};
    const SafetensorsEntry& entry = *found->second;
    if (entry.dtype != "F32") {
      return Error{path + ": tensor " + show_name(tensor.name) + " has dtype " + entry.dtype +
                   ", expected F32"};
    }
    if (entry.shape != tensor.shape) {
      return Error{path + " holds another model: tensor " + show_name(tensor.name) + " has shape " +
                   show_shape(entry.shape) + ", expected " + show_shape(tensor.shape)};
    }
  }
  if (by_name.size() != layout.tensors().size()) {
    for (const auto& tensor : layout.tensors()) by_name.erase(tensor.name);
    return Error{path + " holds another model: tensor " + show_name(by_name.begin()->first) +
                 " does not belong to this one"};
  }

  Checkpoint checkpoint;
  checkpoint.arena.assign(layout.arena_size(), 0.0f);
  for (const auto& tensor : layout.tensors()) {
    const std::span<float> values = std::span(checkpoint.arena).subspan(tensor.offset, tensor.size);
    if (Status status = file->read(*by_name.at(tensor.name), std::as_writable_bytes(values)); !status)
      return status.error();
  }
  checkpoint.metadata = file->metadata();
  return checkpoint;
}

Result<Facts> read_metadata(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  return file->metadata();
}

Status export_parameters(const std::string& from, const std::string& to) {
  const auto file = SafetensorsFile::open(from);
  if (!file) return file.error();
  if (Status whole = file->check_data(); !whole) return whole;
  std::vector<std::vector<std::byte>> values;
  std::vector<TensorToWrite> tensors;
  for (const SafetensorsEntry& entry : file->entries()) {
    if (!is_parameter(file->metadata(), entry.name)) continue;
    auto& bytes = values.emplace_back(entry.end - entry.begin);
    if (Status read = file->read(entry, bytes); !read) return read;
    tensors.push_back({entry.name, entry.dtype.c_str(), entry.shape, bytes});
  }
  Facts metadata;
  for (const char* key : {"model", "layers", "data", "seed", "steps", "samples"}) {
    const auto found = file->metadata().find(key);
    if (found != file->metadata().end()) metadata.insert(*found);
  }
  return write_tensors(to, tensors, std::move(metadata));
}

Facts model_metadata(const models::ModelText& model) {
  Facts metadata{{"model", model.name}};
  if (!model.layers.empty()) metadata["layers"] = model.layers;
  return metadata;
}

std::optional<models::ModelText> model_of(const Facts& metadata) {
  const auto name = metadata.find("model"), layers = metadata.find("layers");
  if (name == metadata.end()) return std::nullopt;
  return models::ModelText{name->second, layers == metadata.end() ? std::string() : layers->second};
}

}  // namespace starling::training

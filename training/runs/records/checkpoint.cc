#include "training/runs/records/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>

namespace starling::training {

bool is_parameter(const Facts& metadata, const std::string& tensor) {
  if (tensor.ends_with(".num_batches_tracked")) return false;
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

namespace {

// Where a tensor's values are in a file.
struct TensorSource {
  const SafetensorsEntry* entry;
  bool transposed = false;
};
using TensorSources = std::map<std::string, TensorSource>;

std::vector<std::int64_t> reversed(std::vector<std::int64_t> shape) {
  std::ranges::reverse(shape);
  return shape;
}

// "transformer." or what else comes before "wte.weight"; nullopt if no tensor ends so.
std::optional<std::string> gpt_prefix(const TensorSources& sources) {
  constexpr std::string_view kFirst = "wte.weight";
  for (const auto& [name, source] : sources) {
    if (name == kFirst || name.ends_with("." + std::string(kFirst)))
      return name.substr(0, name.size() - kFirst.size());
  }
  return std::nullopt;
}

// The tied output layer, which such a file repeats, must have the embedding's values.
Status check_head(const SafetensorsFile& file, const SafetensorsEntry& head,
                  const SafetensorsEntry& embedding) {
  std::vector<std::byte> a(head.end - head.begin), b(embedding.end - embedding.begin);
  if (Status read = file.read(head, a); !read) return read;
  if (Status read = file.read(embedding, b); !read) return read;
  if (a == b) return Done{};
  return Error{file.path() + " holds another model: its " + head.name + " differs from " + embedding.name +
               ", and this model's output layer is tied to the embedding"};
}

// Gives the tensors of a file of nanoGPT or GPT-2 the names of the layout.
Status rename_gpt(const SafetensorsFile& file, const models::Layout& layout, const std::string& prefix,
                  TensorSources& sources) {
  std::vector<NamedShape> ours;
  for (const auto& tensor : layout.tensors()) ours.emplace_back(tensor.name, tensor.shape);
  const auto theirs = gpt_tensors(ours);
  if (!theirs) return Done{};  // then the first missing tensor is named
  const std::string outer = prefix.ends_with(kGptPrefix)
                                ? prefix.substr(0, prefix.size() - std::string_view(kGptPrefix).size())
                                : prefix;
  TensorSources renamed;
  bool turned = false;
  for (std::size_t i = 0; i < theirs->size(); ++i) {
    const GptTensor& tensor = (*theirs)[i];
    const std::string name = (tensor.name == kGptHead ? outer : prefix) + tensor.name;
    const auto found = sources.find(name);
    if (found == sources.end())
      return Error{file.path() + " holds another model: it has no tensor " + show_name(name)};
    // The first linear layer is three times as long as wide.
    const bool reversed_here = tensor.linear && found->second.entry->shape == reversed(ours[i].second);
    if (tensor.name.ends_with("c_attn.weight")) turned = reversed_here;
    renamed[ours[i].first] = {found->second.entry, tensor.linear && turned};
    sources.erase(found);
  }
  const auto head = sources.find(outer + kGptHead);
  if (head != sources.end()) {
    if (Status same = check_head(file, *head->second.entry, *renamed[ours.front().first].entry); !same)
      return same;
    sources.erase(head);
  }
  renamed.merge(sources);
  sources = std::move(renamed);
  return Done{};
}

// Whether the tensors are embeddings of different vocabularies.
bool differ_in_vocabulary(const models::Tensor& ours, const std::vector<std::int64_t>& theirs) {
  return ours.name.starts_with("embedding") && theirs.size() == 2 && theirs[0] != ours.shape[0] &&
         theirs[1] == ours.shape[1];
}

// The rows by which the file's vocabulary exceeds the layout's; 0 if it does not, or if it is another one.
std::int64_t padding_of(const models::Layout& layout, const TensorSources& sources) {
  if (layout.tensors().empty()) return 0;
  const models::Tensor& first = layout.tensors().front();
  const auto found = sources.find(first.name);
  if (found == sources.end() || !differ_in_vocabulary(first, found->second.entry->shape)) return 0;
  const std::int64_t more = found->second.entry->shape[0] - first.shape[0];
  return more > 0 && more < kPaddingMax ? more : 0;
}

// Whether the tensor belongs to a linear layer that ends the network. A tied one has no weights of its own.
bool is_of_output(const models::Layout& layout, const models::Tensor& tensor) {
  const std::string& last = layout.tensors().back().name;
  return last.starts_with("fc") && tensor.name.starts_with(last.substr(0, last.find('.') + 1));
}

// The shape that a tensor has in the file.
std::vector<std::int64_t> shape_in_file(const models::Layout& layout, const models::Tensor& tensor,
                                        std::int64_t padding) {
  auto shape = tensor.shape;
  if (tensor.name == layout.tensors().front().name || is_of_output(layout, tensor)) shape[0] += padding;
  return shape;
}

// An Error unless the tensors are the layout's.
Status check_sources(const std::string& path, const models::Layout& layout, const TensorSources& sources,
                     std::int64_t padding) {
  for (const auto& tensor : layout.tensors()) {
    const auto found = sources.find(tensor.name);
    if (found == sources.end())
      return Error{path + " holds another model: it has no tensor " + show_name(tensor.name)};
    const auto& [entry, transposed] = found->second;
    if (!SafetensorsFile::has_floats(*entry)) {
      return Error{path + ": tensor " + show_name(entry->name) + " has dtype " + entry->dtype +
                   ", expected F32, F16, BF16 or F64"};
    }
    if (padding == 0 && differ_in_vocabulary(tensor, entry->shape))
      return Error{path + " has a vocabulary of " + std::to_string(entry->shape[0]) +
                   " tokens, but the data or the tokenizer has " + std::to_string(tensor.shape[0]) +
                   "; use the tokenizer of its training data"};
    const auto own = shape_in_file(layout, tensor, padding);
    const auto expected = transposed ? reversed(own) : own;
    if (entry->shape != expected) {
      const bool other_classes = sources.size() == layout.tensors().size() &&
                                 entry->shape.size() == expected.size() && !transposed &&
                                 std::equal(expected.begin() + 1, expected.end(), entry->shape.begin() + 1);
      if (other_classes && is_of_output(layout, tensor))
        return Error{path + " has " + std::to_string(entry->shape[0]) + " outputs in tensor " +
                     show_name(entry->name) + ", and the data have " + std::to_string(expected[0]) +
                     " classes; use data with the classes of its training data"};
      return Error{path + " holds another model: tensor " + show_name(entry->name) + " has shape " +
                   show_shape(entry->shape) + ", expected " + show_shape(expected)};
    }
  }
  if (sources.size() == layout.tensors().size()) return Done{};
  std::set<std::string> ours;
  for (const auto& tensor : layout.tensors()) ours.insert(tensor.name);
  const auto other =
      std::ranges::find_if(sources, [&](const auto& each) { return !ours.contains(each.first); });
  return Error{path + " holds another model: tensor " + show_name(other->second.entry->name) +
               " does not belong to this one"};
}

std::size_t count_of(const SafetensorsEntry& entry) {
  std::size_t count = 1;
  for (const std::int64_t extent : entry.shape) count *= static_cast<std::size_t>(extent);
  return count;
}

// Reads the first values of a padded tensor, and all of another one.
Status read_tensor(const SafetensorsFile& file, const TensorSource& source, std::span<float> values) {
  const std::size_t count = count_of(*source.entry);
  if (!source.transposed && count == values.size()) return file.read_floats(*source.entry, values);
  std::vector<float> stored(count);
  if (Status read = file.read_floats(*source.entry, stored); !read) return read;
  if (!source.transposed) {
    std::copy_n(stored.begin(), values.size(), values.begin());
    return Done{};
  }
  const auto rows = static_cast<std::size_t>(source.entry->shape[0]);
  transpose_weights(stored, rows, stored.size() / rows, values.data());
  return Done{};
}

}  // namespace

Result<int> outputs_in(const std::string& path, const models::Layout& layout) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  if (layout.tensors().empty() || !is_of_output(layout, layout.tensors().back())) return 0;
  const SafetensorsEntry* last = file->find(layout.tensors().back().name);
  constexpr std::int64_t kMost = 1 << 24;
  return last == nullptr || last->shape.empty() || last->shape[0] > kMost ? 0
                                                                          : static_cast<int>(last->shape[0]);
}

Result<Checkpoint> read_safetensors(const std::string& path, const models::Layout& layout) {
  auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  if (Status whole = file->check_data(); !whole) return whole.error();

  TensorSources sources;
  for (const SafetensorsEntry& entry : file->entries()) {
    if (is_parameter(file->metadata(), entry.name) && !is_attention_mask({entry.name, entry.shape}))
      sources[entry.name] = {&entry};
  }
  const bool own = layout.tensors().empty() || sources.contains(layout.tensors().front().name);
  if (const auto prefix = own ? std::nullopt : gpt_prefix(sources)) {
    if (Status renamed = rename_gpt(*file, layout, *prefix, sources); !renamed) return renamed.error();
  }
  const std::int64_t padding = padding_of(layout, sources);
  if (Status fits = check_sources(path, layout, sources, padding); !fits) return fits.error();

  Checkpoint checkpoint;
  if (padding > 0)
    checkpoint.note = path + " has " + std::to_string(padding) +
                      " rows of the vocabulary beyond the tokens; they are left out";
  checkpoint.arena.assign(layout.arena_size(), 0.0f);
  for (const auto& tensor : layout.tensors()) {
    const std::span<float> values = std::span(checkpoint.arena).subspan(tensor.offset, tensor.size);
    if (Status status = read_tensor(*file, sources.at(tensor.name), values); !status) return status.error();
  }
  checkpoint.metadata = file->metadata();
  return checkpoint;
}

namespace {

Status check_finite(const std::string& path, const std::string& tensor, std::span<const float> values) {
  const auto wrong = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
  if (wrong == 0) return Done{};
  return Error{path + ": " + std::to_string(wrong) + " of the " + std::to_string(values.size()) +
               " values of tensor " + show_name(tensor) + " are not finite"};
}

}  // namespace

Status check_finite(const std::string& path, const models::Layout& layout, std::span<const float> arena) {
  for (const auto& tensor : layout.tensors()) {
    const auto values = arena.subspan(tensor.offset, tensor.size);
    if (Status finite = check_finite(path, tensor.name, values); !finite) return finite;
  }
  return Done{};
}

Status check_is_model(const SafetensorsFile& file) {
  if (!file.metadata().contains(kSimulationFact)) return Done{};
  return Error{file.path() +
               " is a checkpoint of a simulation, from which only that run resumes; its model is " +
               "model.safetensors in the same folder when the run has ended"};
}

Result<Facts> read_metadata(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  if (Status model = check_is_model(*file); !model) return model.error();
  return file->metadata();
}

namespace {

struct ExportedTensor {
  TensorToWrite head;
  std::vector<std::byte> values;
};

// Puts the tensors in the order of the network, if they are its tensors.
void put_in_order(const std::optional<models::ModelText>& model, std::vector<ExportedTensor>& tensors) {
  const auto embedding = std::ranges::find_if(
      tensors, [](const ExportedTensor& tensor) { return tensor.head.name.starts_with("embedding"); });
  if (!model || embedding == tensors.end() || embedding->head.shape.size() != 2) return;
  const std::int64_t tokens = embedding->head.shape[0];
  if (tokens < 2 || tokens > INT32_MAX) return;
  const auto plan =
      models::make_model(*model, {1, 1, 1, models::context_of(*model)}, static_cast<int>(tokens));
  if (!plan) return;
  const auto place = [&](const ExportedTensor& tensor) {
    return std::ranges::find(plan->layout.tensors(), tensor.head.name, &models::Tensor::name) -
           plan->layout.tensors().begin();
  };
  std::ranges::stable_sort(tensors, {}, place);
}

// Gives the tensors the names and forms of nanoGPT or GPT-2, and adds the output layer if it is tied.
Status to_gpt(const std::string& from, bool known, TensorNames names, std::vector<ExportedTensor>& tensors) {
  std::vector<NamedShape> ours;
  for (const ExportedTensor& tensor : tensors) ours.emplace_back(tensor.head.name, tensor.head.shape);
  const auto theirs = gpt_tensors(ours);
  if (!theirs && !known)
    return Error{from +
                 " does not name its network, and its tensors are not in the order of GPT-2's; name the "
                 "network with --model"};
  if (!theirs)
    return Error{from +
                 " holds no network of GPT-2's kind, with learned positions, layer norms and "
                 "perceptrons of two linear layers"};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const GptTensor& its = (*theirs)[i];
    TensorToWrite& head = tensors[i].head;
    head.name = its.name == kGptHead ? its.name : kGptPrefix + its.name;
    if (!its.linear || names != TensorNames::gpt2) continue;
    std::vector<float> stored(tensors[i].values.size() / sizeof(float)), turned(stored.size());
    std::memcpy(stored.data(), tensors[i].values.data(), tensors[i].values.size());
    const auto rows = static_cast<std::size_t>(head.shape[0]);
    transpose_weights(stored, rows, stored.size() / rows, turned.data());
    std::memcpy(tensors[i].values.data(), turned.data(), tensors[i].values.size());
    head.shape = reversed(head.shape);
  }
  if (theirs->back().name != kGptHead) {
    ExportedTensor head = tensors.front();
    head.head.name = kGptHead;
    tensors.push_back(std::move(head));
  }
  return Done{};
}

}  // namespace

Status export_parameters(const std::string& from, const std::string& to, TensorNames names,
                         const std::optional<models::ModelText>& model) {
  if (Status other = check_not_input(to, from); !other) return other;
  const auto file = SafetensorsFile::open(from);
  if (!file) return file.error();
  if (Status is_model = check_is_model(*file); !is_model) return is_model;
  if (Status whole = file->check_data(); !whole) return whole;
  const bool as_floats = names != TensorNames::starling;
  std::vector<ExportedTensor> tensors;
  for (const SafetensorsEntry& entry : file->entries()) {
    if (!is_parameter(file->metadata(), entry.name)) continue;
    auto& tensor = tensors.emplace_back();
    tensor.head = {entry.name, entry.dtype.c_str(), entry.shape, {}};
    std::vector<float> values;
    if (SafetensorsFile::has_floats(entry)) {
      values.resize(count_of(entry));
      if (Status read = file->read_floats(entry, values); !read) return read;
      if (Status finite = check_finite(from, entry.name, values); !finite) return finite;
    }
    if (as_floats && SafetensorsFile::has_floats(entry)) {
      const auto bytes = std::as_bytes(std::span(values));
      tensor.values.assign(bytes.begin(), bytes.end());
      tensor.head.dtype = "F32";
    } else {
      tensor.values.resize(entry.end - entry.begin);
      if (Status read = file->read(entry, tensor.values); !read) return read;
    }
  }
  if (as_floats) {
    const auto network = model ? model : model_of(file->metadata());
    put_in_order(network, tensors);
    if (Status renamed = to_gpt(from, network.has_value(), names, tensors); !renamed) return renamed;
  }
  std::vector<TensorToWrite> written;
  for (ExportedTensor& tensor : tensors) {
    tensor.head.bytes = tensor.values;
    written.push_back(tensor.head);
  }
  Facts metadata = model ? model_metadata(*model) : Facts();
  if (as_floats) metadata["format"] = "pt";  // transformers reads no file without it
  for (const char* key :
       {"model", "layers", kTokenizerFact, kDescriptionFact, "data", "seed", "steps", "samples"}) {
    const auto found = file->metadata().find(key);
    if (found != file->metadata().end()) metadata.insert(*found);
  }
  return write_tensors(to, written, std::move(metadata));
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

#include "training/runs/records/peer_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "base/text.h"
#include "training/runs/records/checkpoint.h"

namespace starling::training {
namespace {

constexpr const char* kFormat = "1";
constexpr std::uint64_t kWorkersMax = 65'536;

std::string of(const char* group, std::size_t worker, const std::string& what) {
  return group + ("." + std::to_string(worker)) + "." + what;
}

// Numbers of 64 bits, in hexadecimal, separated by spaces.
std::string to_words(const RandomState& state) {
  std::string text;
  for (const std::uint64_t word : state) text += (text.empty() ? "" : " ") + to_string(PeerId{word});
  return text;
}

std::optional<RandomState> parse_words(const std::string& text) {
  RandomState state{};
  std::istringstream words(text);
  for (std::uint64_t& value : state) {
    std::string word;
    if (!(words >> word)) return std::nullopt;
    const char* const end = word.data() + word.size();
    if (word.size() != 16 || std::from_chars(word.data(), end, value, 16).ptr != end) return std::nullopt;
  }
  if (std::string more; words >> more) return std::nullopt;
  return state;
}

// A worker's state, field by field, in the order of the file's tensors. `Io` is the Writer or the Reader.
template <class Io, class Worker>
void visit(Io& io, std::size_t k, Worker& worker) {
  const bool adamw = io.tells_adamw(of("optimizer", k, "mean."), worker);
  io.vector(of("optimizer", k, adamw ? "mean." : "velocity."), worker.velocity);
  if (adamw) io.vector(of("optimizer", k, "square."), worker.square);
  io.fact(of("optimizer", k, "steps"), worker.steps);
  if (io.has(of("optimizer", k, "following.mixed"), worker.following)) {
    io.vector(of("optimizer", k, "last."), worker.following->last);
    io.fact(of("optimizer", k, "following.mixed"), worker.following->mixed);
    io.fact(of("optimizer", k, "following.steps"), worker.following->steps);
    io.fact(of("optimizer", k, "following.rates"), worker.following->rates);
  }
  io.order(of("sampler", k, "order"), worker.cursor.order);
  io.fact(of("sampler", k, "position"), worker.cursor.position);
  io.fact(of("network", k, "draws"), worker.draws);
  io.fact(of("sampler", k, "random"), worker.cursor.random);
  if (io.has(of("images", k, "random"), worker.images)) io.fact(of("images", k, "random"), *worker.images);
}

// Collects the tensors and facts of the file. The values must outlive it.
class Writer {
 public:
  Writer(const models::Layout& layout, Facts& facts, std::vector<TensorToWrite>& tensors)
      : layout_(layout), facts_(facts), tensors_(tensors) {}

  bool tells_adamw(const std::string& /*prefix*/, const WorkerState& worker) {
    return !worker.square.empty();
  }
  template <class T>
  bool has(const std::string& /*key*/, const std::optional<T>& value) {
    return value.has_value();
  }
  // The trained tensors, or all of the layout's.
  void vector(const std::string& prefix, std::span<const float> values, bool trained = true) {
    STARLING_CHECK(values.size() == (trained ? layout_.trained_size() : layout_.arena_size()));
    for (const models::Tensor& tensor : layout_.tensors()) {
      if (trained && !tensor.trained) continue;
      tensors_.push_back({prefix + tensor.name, "F32", tensor.shape,
                          std::as_bytes(values.subspan(tensor.offset, tensor.size))});
    }
  }
  void order(const std::string& name, const std::vector<std::uint32_t>& order) {
    STARLING_CHECK(std::all_of(order.begin(), order.end(), [](std::uint32_t i) { return i >> 31 == 0; }));
    tensors_.push_back(
        {name, "I32", {static_cast<std::int64_t>(order.size())}, std::as_bytes(std::span(order))});
  }
  void fact(const std::string& key, std::uint64_t value) { facts_[key] = std::to_string(value); }
  void fact(const std::string& key, bool value) { facts_[key] = value ? "true" : "false"; }
  void fact(const std::string& key, double value) { facts_[key] = format_number(value); }
  void fact(const std::string& key, const RandomState& value) { facts_[key] = to_words(value); }

 private:
  const models::Layout& layout_;
  Facts& facts_;
  std::vector<TensorToWrite>& tensors_;
};

// Keeps the first error, and reads no more tensors after it.
class Reader {
 public:
  Reader(const SafetensorsFile& file, const models::Layout& layout) : file_(file), layout_(layout) {}

  bool tells_adamw(const std::string& prefix, const WorkerState& /*worker*/) {
    const auto& entries = file_.entries();
    return std::any_of(entries.begin(), entries.end(),
                       [&](const SafetensorsEntry& entry) { return entry.name.starts_with(prefix); });
  }
  template <class T>
  bool has(const std::string& key, std::optional<T>& value) {
    if (find(key) != nullptr) value = T{};
    return value.has_value();
  }
  void vector(const std::string& prefix, std::vector<float>& values) {
    values.assign(layout_.trained_size(), 0);
    for (const models::Tensor& tensor : layout_.tensors()) {
      if (!tensor.trained) continue;
      const SafetensorsEntry* const entry = file_.find(prefix + tensor.name);
      if (entry == nullptr || entry->dtype != "F32" || entry->shape != tensor.shape)
        return refuse("tensor " + show_name(prefix + tensor.name) +
                      " is missing, or is not like the parameter: F32 " + show_shape(tensor.shape));
      read(*entry, std::as_writable_bytes(std::span(values).subspan(tensor.offset, tensor.size)));
    }
  }
  void order(const std::string& name, std::vector<std::uint32_t>& order) {
    const SafetensorsEntry* const entry = file_.find(name);
    if (entry == nullptr || entry->dtype != "I32" || entry->shape.size() != 1)
      return refuse("tensor " + show_name(name) + " is missing, or is not a vector of I32");
    order.resize(static_cast<std::size_t>(entry->shape.front()));
    read(*entry, std::as_writable_bytes(std::span(order)));
  }
  void fact(const std::string& key, std::uint64_t& value) {
    const auto number = number_in(file_.metadata(), key, file_.path());
    if (number) value = *number;
    if (!number && status_) status_ = number.error();
  }
  void fact(const std::string& key, bool& value) {
    const std::string* const text = find(key);
    value = text != nullptr && *text == "true";
    if (!value && (text == nullptr || *text != "false")) wrong(key);
  }
  void fact(const std::string& key, double& value) { parsed(key, parse_number<double>, value); }
  void fact(const std::string& key, RandomState& value) { parsed(key, parse_words, value); }
  // The value of a fact is missing or impossible.
  void wrong(const std::string& key) {
    refuse("'" + key + "' is missing, or has a value that no peer writes");
  }

  const Status& status() const { return status_; }

 private:
  const std::string* find(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? nullptr : &found->second;
  }
  template <class Parse, class T>
  void parsed(const std::string& key, Parse parse, T& value) {
    const std::string* const text = find(key);
    const auto read = text == nullptr ? std::nullopt : parse(*text);
    if (!read) return wrong(key);
    value = *read;
  }
  void read(const SafetensorsEntry& entry, MutableBytes out) {
    if (status_) status_ = file_.read(entry, out);
  }
  void refuse(const std::string& why) {
    if (status_) status_ = Error{file_.path() + ": " + why};
  }

  const SafetensorsFile& file_;
  const models::Layout& layout_;
  Status status_ = Done{};
};

Result<SafetensorsFile> open_full(const std::string& path) {
  auto file = SafetensorsFile::open(path);
  if (!file) return file;
  const auto format = file->metadata().find(kFullCheckpoint);
  if (format == file->metadata().end())
    return Error{path +
                 " holds only parameters, so no peer can resume from it; --init starts a run "
                 "with them"};
  if (format->second != kFormat)
    return Error{path + " is a checkpoint of format " + show_name(format->second) +
                 "; this version reads format " + kFormat};
  return file;
}

}  // namespace

Result<std::uint64_t> number_in(const Facts& facts, const std::string& key, const std::string& path) {
  const auto found = facts.find(key);
  const auto number = found == facts.end() ? std::nullopt : parse_number<std::uint64_t>(found->second);
  if (!number) return Error{path + ": '" + key + "' is missing, or not a whole number"};
  return *number;
}

Status write_peer_state(const std::string& path, const models::Layout& layout, const PeerState& state,
                        Facts facts, const FileCheck& check) {
  std::vector<TensorToWrite> tensors;
  Writer writer(layout, facts, tensors);
  writer.vector("", state.parameters, /*trained=*/false);
  for (std::size_t k = 0; k < state.workers.size(); ++k) visit(writer, k, state.workers[k]);
  facts[kFullCheckpoint] = kFormat;
  writer.fact("workers", std::uint64_t{state.workers.size()});
  writer.fact("steps", state.steps);
  writer.fact("samples", state.samples);
  if (state.loss && std::isfinite(*state.loss)) writer.fact("loss", *state.loss);
  return write_tensors(path, tensors, std::move(facts), Durability::checked, check);
}

Result<SavedPeer> read_peer_state(const std::string& path, const models::Layout& layout) {
  const auto file = open_full(path);
  if (!file) return file.error();
  auto parameters = read_safetensors(path, layout);
  if (!parameters) return parameters.error();
  SavedPeer saved;
  PeerState& state = saved.state;
  state.parameters = std::move(parameters->arena);
  saved.facts = std::move(parameters->metadata);
  Reader reader(*file, layout);
  std::uint64_t workers = 0;
  reader.fact("workers", workers);
  reader.fact("steps", state.steps);
  reader.fact("samples", state.samples);
  if (reader.has("loss", state.loss)) reader.fact("loss", *state.loss);
  if (workers > kWorkersMax) reader.wrong("workers");
  for (std::size_t k = 0; k < workers && reader.status(); ++k) {
    WorkerState& worker = state.workers.emplace_back();
    visit(reader, k, worker);
    if (worker.cursor.position > worker.cursor.order.size()) reader.wrong(of("sampler", k, "position"));
  }
  if (!reader.status()) return reader.status().error();
  return saved;
}

Result<Facts> inspect_peer_state(const std::string& path) {
  const auto file = open_full(path);
  if (!file) return file.error();
  if (Status whole = file->check_data(); !whole) return whole.error();
  for (const char* key : {"workers", "steps", "samples"}) {
    if (const auto number = number_in(file->metadata(), key, path); !number) return number.error();
  }
  return file->metadata();
}

}  // namespace starling::training

#include "training/records/peer_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "base/text.h"
#include "training/records/checkpoint.h"
#include "training/records/safetensors.h"

namespace starling::training {
namespace {

constexpr const char* kFormat = "1";
constexpr std::uint64_t kWorkersMax = 65'536;

std::string of(const char* group, std::size_t worker, const std::string& what) {
  return group + ("." + std::to_string(worker)) + "." + what;
}

// Numbers of 64 bits, in hexadecimal, with a space between them.
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

// What stands beside the layout's tensors in the file.
class Writer {
 public:
  Writer(const models::Layout& layout, const PeerState& state, Facts facts)
      : layout_(layout), state_(state), facts_(std::move(facts)) {}

  Status write(const std::string& path) {
    add_vector("", state_.parameters, /*trained=*/false);
    for (std::size_t k = 0; k < state_.workers.size(); ++k) add_worker(k, state_.workers[k]);
    facts_[kFullCheckpoint] = kFormat;
    facts_["workers"] = std::to_string(state_.workers.size());
    facts_["steps"] = std::to_string(state_.steps);
    facts_["samples"] = std::to_string(state_.samples);
    if (state_.loss && std::isfinite(*state_.loss)) facts_["loss"] = format_number(*state_.loss);
    return write_tensors(path, tensors_, std::move(facts_), Durability::checked);
  }

 private:
  // Of the layout's tensors, or of the trained ones.
  void add_vector(const std::string& prefix, std::span<const float> values, bool trained = true) {
    STARLING_CHECK(values.size() == (trained ? layout_.trained_size() : layout_.arena_size()));
    for (const models::Tensor& tensor : layout_.tensors()) {
      if (trained && !tensor.trained) continue;
      tensors_.push_back({prefix + tensor.name, "F32", tensor.shape,
                          std::as_bytes(values.subspan(tensor.offset, tensor.size))});
    }
  }

  void add_worker(std::size_t k, const WorkerState& worker) {
    const bool adamw = !worker.square.empty();
    add_vector(of("optimizer", k, adamw ? "mean." : "velocity."), worker.velocity);
    if (adamw) add_vector(of("optimizer", k, "square."), worker.square);
    facts_[of("optimizer", k, "steps")] = std::to_string(worker.steps);
    if (worker.following) {
      const auto& following = *worker.following;
      add_vector(of("optimizer", k, "last."), following.last);
      facts_[of("optimizer", k, "following.mixed")] = following.mixed ? "true" : "false";
      facts_[of("optimizer", k, "following.steps")] = std::to_string(following.steps);
      facts_[of("optimizer", k, "following.rates")] = format_number(following.rates);
    }
    const auto& order = worker.cursor.order;
    STARLING_CHECK(std::all_of(order.begin(), order.end(), [](std::uint32_t i) { return i >> 31 == 0; }));
    tensors_.push_back({of("sampler", k, "order"),
                        "I32",
                        {static_cast<std::int64_t>(order.size())},
                        std::as_bytes(std::span(order))});
    facts_[of("sampler", k, "position")] = std::to_string(worker.cursor.position);
    facts_[of("sampler", k, "random")] = to_words(worker.cursor.random);
    if (worker.images) facts_[of("images", k, "random")] = to_words(*worker.images);
    facts_[of("network", k, "draws")] = std::to_string(worker.draws);
  }

  const models::Layout& layout_;
  const PeerState& state_;
  Facts facts_;
  std::vector<TensorToWrite> tensors_;
};

class Reader {
 public:
  Reader(const SafetensorsFile& file, const models::Layout& layout) : file_(file), layout_(layout) {}

  Status read(PeerState& state) {
    const auto workers = number("workers"), steps = number("steps"), samples = number("samples");
    for (const auto* found : {&workers, &steps, &samples})
      if (!*found) return found->error();
    if (*workers > kWorkersMax) return wrong("workers");
    state.steps = *steps;
    state.samples = *samples;
    if (const std::string* text = fact("loss")) {
      const auto loss = real(*text);
      if (!loss) return wrong("loss");
      state.loss = *loss;
    }
    for (std::size_t k = 0; k < *workers; ++k) {
      if (Status read = read_worker(k, state.workers.emplace_back()); !read) return read;
    }
    return Done{};
  }

 private:
  Error wrong(const std::string& key) const {
    return Error{file_.path() + ": '" + key + "' is missing, or not as a peer writes it"};
  }
  const std::string* fact(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? nullptr : &found->second;
  }
  Result<std::uint64_t> number(const std::string& key) const {
    return number_in(file_.metadata(), key, file_.path());
  }
  static std::optional<double> real(const std::string& text) { return parse_number<double>(text); }
  Result<RandomState> words(const std::string& key) const {
    const std::string* text = fact(key);
    const auto state = text == nullptr ? std::nullopt : parse_words(*text);
    if (!state) return wrong(key);
    return *state;
  }

  Status read_vector(const std::string& prefix, std::vector<float>& values) const {
    values.assign(layout_.trained_size(), 0);
    for (const models::Tensor& tensor : layout_.tensors()) {
      if (!tensor.trained) continue;
      const SafetensorsEntry* const entry = file_.find(prefix + tensor.name);
      if (entry == nullptr || entry->dtype != "F32" || entry->shape != tensor.shape)
        return Error{file_.path() + ": tensor " + show_name(prefix + tensor.name) +
                     " is missing, or not as the parameter's: F32 " + show_shape(tensor.shape)};
      const auto part = std::span(values).subspan(tensor.offset, tensor.size);
      if (Status read = file_.read(*entry, std::as_writable_bytes(part)); !read) return read;
    }
    return Done{};
  }

  bool holds(const std::string& prefix) const {
    const auto& entries = file_.entries();
    return std::any_of(entries.begin(), entries.end(),
                       [&](const SafetensorsEntry& entry) { return entry.name.starts_with(prefix); });
  }

  Status read_worker(std::size_t k, WorkerState& worker) const {
    const bool adamw = holds(of("optimizer", k, "mean."));
    if (Status read = read_vector(of("optimizer", k, adamw ? "mean." : "velocity."), worker.velocity); !read)
      return read;
    if (adamw) {
      if (Status read = read_vector(of("optimizer", k, "square."), worker.square); !read) return read;
    }
    const auto steps = number(of("optimizer", k, "steps"));
    if (!steps) return steps.error();
    worker.steps = *steps;
    if (fact(of("optimizer", k, "following.mixed")) != nullptr) {
      if (Status read = read_following(k, worker.following.emplace()); !read) return read;
    }
    return read_cursor(k, worker);
  }

  Status read_following(std::size_t k, WorkerState::Following& following) const {
    const std::string mixed = *fact(of("optimizer", k, "following.mixed"));
    if (mixed != "true" && mixed != "false") return wrong(of("optimizer", k, "following.mixed"));
    following.mixed = mixed == "true";
    const auto steps = number(of("optimizer", k, "following.steps"));
    if (!steps) return steps.error();
    following.steps = *steps;
    const std::string rates_key = of("optimizer", k, "following.rates");
    const std::string* const text = fact(rates_key);
    const auto rates = text == nullptr ? std::nullopt : real(*text);
    if (!rates) return wrong(rates_key);
    following.rates = *rates;
    return read_vector(of("optimizer", k, "last."), following.last);
  }

  Status read_cursor(std::size_t k, WorkerState& worker) const {
    const std::string name = of("sampler", k, "order");
    const SafetensorsEntry* const order = file_.find(name);
    if (order == nullptr || order->dtype != "I32" || order->shape.size() != 1)
      return Error{file_.path() + ": tensor " + show_name(name) + " is missing, or not a row of I32"};
    worker.cursor.order.resize(static_cast<std::size_t>(order->shape.front()));
    if (Status read = file_.read(*order, std::as_writable_bytes(std::span(worker.cursor.order))); !read)
      return read;
    const auto position = number(of("sampler", k, "position")), draws = number(of("network", k, "draws"));
    if (!position) return position.error();
    if (!draws) return draws.error();
    if (*position > worker.cursor.order.size()) return wrong(of("sampler", k, "position"));
    worker.cursor.position = *position;
    worker.draws = *draws;
    const auto random = words(of("sampler", k, "random"));
    if (!random) return random.error();
    worker.cursor.random = *random;
    if (fact(of("images", k, "random")) != nullptr) {
      const auto images = words(of("images", k, "random"));
      if (!images) return images.error();
      worker.images = *images;
    }
    return Done{};
  }

  const SafetensorsFile& file_;
  const models::Layout& layout_;
};

Result<SafetensorsFile> open_full(const std::string& path) {
  auto file = SafetensorsFile::open(path);
  if (!file) return file;
  const auto format = file->metadata().find(kFullCheckpoint);
  if (format == file->metadata().end())
    return Error{
        path +
        " holds parameters alone, and is no checkpoint that a peer could go on from; --init begins a run "
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
                        Facts facts) {
  return Writer(layout, state, std::move(facts)).write(path);
}

Result<SavedPeer> read_peer_state(const std::string& path, const models::Layout& layout) {
  const auto file = open_full(path);
  if (!file) return file.error();
  auto parameters = read_safetensors(path, layout);
  if (!parameters) return parameters.error();
  SavedPeer saved;
  saved.state.parameters = std::move(parameters->arena);
  saved.facts = std::move(parameters->metadata);
  if (Status read = Reader(*file, layout).read(saved.state); !read) return read.error();
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

#include "node/trainers/declaration.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/ids.h"
#include "base/text.h"
#include "models/layout_text.h"

namespace starling::node {
namespace {

using Role = DeclaredTensor::Role;

constexpr std::string_view kGreeting = "starling-trainer ";
constexpr std::uint64_t kSecondsMax = std::uint64_t{1} << 32;  // of a run
constexpr std::array<std::string_view, 3> kRoles = {"trained", "running", "frozen"};
constexpr std::array<std::string_view, 4> kTypes = {"f32", "f64", "f16", "bf16"};
constexpr std::array<std::size_t, 4> kTypeBytes = {4, 8, 2, 2};
constexpr std::size_t kStatesMax = 4 * models::kTensorsMax;
constexpr std::size_t kStateAlignment = 16;  // words of 4 bytes
constexpr std::size_t kTextBytesMax = 200;
constexpr std::uint32_t kBatchMax = std::uint32_t{1} << 24;

// "32,1,5,5", or "-" for a scalar.
std::optional<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  if (text == "-") return std::vector<std::int64_t>();
  return models::parse_extents(text, ',');
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "-" : models::extents_text(shape, ',');
}

models::Tensor to_tensor(const DeclaredTensor& declared) {
  return {declared.name, declared.shape, 0, 0, declared.role == Role::trained};
}

// In the order of the layout.
std::vector<const DeclaredTensor*> in_order(const std::vector<DeclaredTensor>& tensors) {
  std::vector<const DeclaredTensor*> sorted;
  for (const bool trained : {true, false})
    for (const DeclaredTensor& tensor : tensors)
      if ((tensor.role == Role::trained) == trained) sorted.push_back(&tensor);
  return sorted;
}

std::size_t elements(const DeclaredTensor& tensor) {
  std::size_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
  return count;
}

// Words of 4 bytes.
std::size_t words_of(const DeclaredTensor& tensor) {
  const auto type = static_cast<std::size_t>(std::ranges::find(kTypes, tensor.type) - kTypes.begin());
  return (elements(tensor) * kTypeBytes.at(type) + 3) / 4;
}

std::size_t room_of(const DeclaredTensor& state) {
  return (words_of(state) + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
}

std::string table_line(std::size_t offset, std::size_t size, const DeclaredTensor& tensor) {
  return fmt::format("{} {} {} {} {} {}\n", offset, size, tensor.type,
                     tensor.role == Role::state ? "state" : kRoles.at(static_cast<std::size_t>(tensor.role)),
                     shape_text(tensor.shape), tensor.name);
}

template <class Number>
Status read_count(std::string_view text, Number most, Number& out) {
  const auto number = parse_number<Number>(text);
  if (!number || *number == 0 || *number > most)
    return Error{fmt::format("'{}' is not a number from 1 to {}", text.substr(0, 80), most)};
  out = *number;
  return Done{};
}

// STEPS SAMPLES SWARM_SAMPLES SECONDS, each at most 2^53.
Status read_made(std::string_view text, Made& out) {
  constexpr std::uint64_t most = std::uint64_t{1} << 53;
  const auto words = split(text, ' ');
  std::vector<std::uint64_t> numbers;
  for (const std::string_view word : words) {
    const auto number = parse_number<std::uint64_t>(word);
    if (number && *number <= most) numbers.push_back(*number);
  }
  if (words.size() != 4 || numbers.size() != 4 || numbers[1] > numbers[2] || numbers[3] > kSecondsMax)
    return Error{fmt::format("'{}' is not STEPS SAMPLES SWARM_SAMPLES SECONDS", text.substr(0, 80))};
  out = {numbers[0], numbers[1], numbers[2], numbers[3]};
  return Done{};
}

Status read_name(std::string_view text, std::string& out) {
  if (text.empty() || text.size() > kTextBytesMax || !is_printable(text) ||
      text.find(' ') != std::string_view::npos)
    return Error{fmt::format("'{}' is not a name of at most {} bytes without spaces", text.substr(0, 80),
                             kTextBytesMax)};
  out = text;
  return Done{};
}

}  // namespace

models::Layout Declaration::layout() const {
  models::Layout layout;
  for (const DeclaredTensor* tensor : in_order(tensors)) layout.append(to_tensor(*tensor));
  return layout;
}

std::string Declaration::table() const {
  const models::Layout layout = this->layout();
  const auto sorted = in_order(tensors);
  std::string text;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const models::Tensor& placed = layout.tensors()[i];
    text += table_line(placed.offset, placed.size, *sorted[i]);
  }
  std::size_t offset = 0;
  for (const DeclaredTensor& state : states) {
    text += table_line(offset, words_of(state), state);
    offset += room_of(state);
  }
  return text;
}

std::size_t Declaration::state_words() const {
  std::size_t words = 0;
  for (const DeclaredTensor& state : states) words += room_of(state);
  return words;
}

std::uint64_t Declaration::state_fingerprint() const {
  std::string text;
  for (const DeclaredTensor& state : states) text += table_line(0, words_of(state), state);
  return states.empty() ? 0 : hash64(text);
}

Result<bool> DeclarationReader::take(std::string_view line) {
  ++lines_;
  if (lines_ == 1) {
    if (Status read = take_first(line); !read) return read.error();
    return false;
  }
  if (line == "end") return complete();
  const std::size_t space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  const std::string_view rest = space == std::string_view::npos ? "" : line.substr(space + 1);
  if (Status read = take_word(word, rest); !read)
    return Error{
        fmt::format("line {} of the declaration, {}: {}", lines_, word.substr(0, 20), read.error().message)};
  return false;
}

Status DeclarationReader::take_first(std::string_view line) {
  if (!line.starts_with(kGreeting))
    return Error{fmt::format("a trainer begins with '{}{}.{}'", kGreeting, kContractMajor, kContractMinor)};
  const auto version = split(line.substr(kGreeting.size()), '.');
  const auto major = parse_number<std::uint16_t>(version.front());
  const auto minor = parse_number<std::uint16_t>(version.back());
  if (version.size() != 2 || !major || !minor)
    return Error{fmt::format("'{}' is not a version such as {}.{}",
                             line.substr(kGreeting.size()).substr(0, 40), kContractMajor, kContractMinor)};
  if (*major != kContractMajor) {
    return Error{fmt::format(
        "the trainer has version {}.{} of the contract, and this peer has {}.{}; both need the same "
        "version before the point",
        *major, *minor, kContractMajor, kContractMinor)};
  }
  return Done{};
}

Status DeclarationReader::take_word(std::string_view word, std::string_view rest) {
  if (word == "tensor") return take_tensor(rest);
  if (word == "state") return take_state(rest);
  if (word == "tied") return take_tied(rest);
  if (word == "model") return read_name(rest, declaration_.model);
  if (word == "data") return read_name(rest, declaration_.data);
  if (word == "epoch") return read_count<std::uint64_t>(rest, kEpochSamplesMax, declaration_.epoch);
  if (word == "batch") return read_count<std::uint32_t>(rest, kBatchMax, declaration_.batch);
  if (word == "made") return read_made(rest, declaration_.made);
  if (word == "mode") {
    if (rest != "copy" && rest != "view")
      return Error{fmt::format("'{}' is neither copy nor view", rest.substr(0, 20))};
    declaration_.view = rest == "view";
  }
  if (word == "device") {
    if (rest.empty() || rest.size() > kTextBytesMax || !is_printable(rest))
      return Error{fmt::format("expected 1 to {} bytes of text", kTextBytesMax)};
    declaration_.device = rest;
  }
  return Done{};  // a later minor version may have other lines
}

Status DeclarationReader::take_tensor(std::string_view text) {
  const auto words = split(text, ' ');
  if (words.size() != 4) return Error{"expected NAME TYPE ROLE SHAPE"};
  const auto role = std::ranges::find(kRoles, words[2]);
  if (role == kRoles.end())
    return Error{fmt::format("{} has the role '{}', which is not {}", words[0].substr(0, 80),
                             words[2].substr(0, 20), one_of(kRoles))};
  return append(declaration_.tensors, models::kTensorsMax, static_cast<Role>(role - kRoles.begin()),
                {words[0], words[1], words[3]});
}

Status DeclarationReader::take_state(std::string_view text) {
  const auto words = split(text, ' ');
  if (words.size() != 3) return Error{"expected NAME TYPE SHAPE"};
  return append(declaration_.states, kStatesMax, Role::state, {words[0], words[1], words[2]});
}

Status DeclarationReader::append(std::vector<DeclaredTensor>& list, std::size_t most, Role role,
                                 const Words& words) {
  if (list.size() >= most) return Error{fmt::format("there are more than {} tensors", most)};
  DeclaredTensor tensor;
  tensor.name = words.name;
  tensor.type = words.type;
  tensor.role = role;
  const auto shape = parse_shape(words.shape);
  if (std::ranges::find(kTypes, words.type) == kTypes.end())
    return Error{fmt::format("{} has the type '{}', which is not {}", words.name.substr(0, 80),
                             words.type.substr(0, 20), one_of(kTypes))};
  if (!shape)
    return Error{fmt::format("{} has the shape '{}', which is not like 64,3,5,5", words.name.substr(0, 80),
                             words.shape.substr(0, 80))};
  tensor.shape = *shape;
  if (Status sound = models::check_tensor(to_tensor(tensor)); !sound) return sound;
  if (names_.contains(tensor.name)) return Error{tensor.name + " is declared twice"};
  floats_ += elements(tensor);
  if (floats_ > models::kLayoutFloatsMax) return Error{"the tensors have more than 2^40 floats"};
  names_.insert(tensor.name);
  list.push_back(std::move(tensor));
  return Done{};
}

Status DeclarationReader::take_tied(std::string_view text) {
  const auto words = split(text, ' ');
  if (words.size() != 2) return Error{"expected NAME NAME"};
  if (declaration_.tied.size() >= models::kTensorsMax)
    return Error{fmt::format("there are more than {} tied names", models::kTensorsMax)};
  const bool known = std::ranges::any_of(declaration_.tensors,
                                         [&](const DeclaredTensor& it) { return it.name == words[1]; });
  if (!known) return Error{fmt::format("no tensor {} is declared before", words[1].substr(0, 80))};
  std::string name;
  if (Status read = read_name(words[0], name); !read) return read;
  if (names_.contains(name)) return Error{name + " is declared twice"};
  names_.insert(name);
  declaration_.tied.emplace_back(std::move(name), words[1]);
  return Done{};
}

Result<bool> DeclarationReader::complete() const {
  const bool trained = std::ranges::any_of(declaration_.tensors,
                                           [](const DeclaredTensor& it) { return it.role == Role::trained; });
  if (!trained) return Error{"the declaration has no trained tensor"};
  const bool views = std::ranges::all_of(declaration_.tensors, [](const DeclaredTensor& it) {
    return it.type == "f32" || it.role == Role::frozen;
  });
  if (declaration_.view && !views) return Error{"mode view needs tensors of type f32, but for frozen ones"};
  return true;
}

}  // namespace starling::node

#include "models/layout_text.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"

namespace starling::models {
namespace {

constexpr std::string_view kStatistic = "statistic", kScalar = "scalar";

std::string quoted(const std::string& name) { return "'" + name.substr(0, 80) + "'"; }

Result<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  if (text == kScalar) return std::vector<std::int64_t>();
  auto shape = parse_extents(text, 'x');
  if (!shape || std::ranges::any_of(*shape, [](std::int64_t extent) { return extent <= 0; }))
    return Error{"'" + std::string(text.substr(0, 80)) + "' is not a shape such as 64x3x5x5"};
  return std::move(*shape);
}

std::string described(const Layout& layout, std::size_t index) {
  if (index >= layout.tensors().size()) return "missing";
  const Tensor& tensor = layout.tensors()[index];
  return tensor.name + " of " + shape_text(tensor.shape);
}

}  // namespace

Status check_tensor(const Tensor& tensor) {
  const bool plain = std::ranges::all_of(
      tensor.name, [](char c) { return static_cast<unsigned char>(c) > ' ' && c != '\x7f' && c != ';'; });
  if (tensor.name.empty() || tensor.name.size() > kTensorNameBytesMax || !plain || !is_utf8(tensor.name)) {
    return Error{"the tensor's name " + quoted(tensor.name) + " is not 1 to " +
                 std::to_string(kTensorNameBytesMax) + " bytes without spaces and ';'"};
  }
  if (tensor.shape.size() > kTensorDimensionsMax)
    return Error{"the tensor " + tensor.name + " has more than " + std::to_string(kTensorDimensionsMax) +
                 " dimensions"};
  std::size_t floats = 1;
  for (const std::int64_t extent : tensor.shape) {
    if (extent <= 0) return Error{"the tensor " + tensor.name + " has an extent below 1"};
    if (static_cast<std::size_t>(extent) > kLayoutFloatsMax / floats)
      return Error{"the tensor " + tensor.name + " has more than 2^40 floats"};
    floats *= static_cast<std::size_t>(extent);
  }
  return Done{};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? std::string(kScalar) : extents_text(shape, 'x');
}

std::string extents_text(const std::vector<std::int64_t>& shape, char separator) {
  std::string text;
  for (const std::int64_t extent : shape) {
    if (!text.empty()) text += separator;
    text += std::to_string(extent);
  }
  return text;
}

std::optional<std::vector<std::int64_t>> parse_extents(std::string_view text, char separator) {
  std::vector<std::int64_t> shape;
  for (const std::string_view extent : split(text, separator)) {
    const auto number = parse_number<std::int64_t>(extent);
    if (!number) return std::nullopt;
    shape.push_back(*number);
  }
  return shape;
}

std::string layout_text(const Layout& layout) {
  std::string text;
  for (const Tensor& tensor : layout.tensors()) {
    text += (text.empty() ? "" : "; ") + tensor.name + " " + shape_text(tensor.shape);
    if (!tensor.trained) text += " " + std::string(kStatistic);
  }
  return text;
}

Result<Layout> parse_layout(std::string_view text) {
  Layout layout;
  std::set<std::string, std::less<>> names;
  for (std::string_view entry : split(text, ';')) {
    if (entry.starts_with(' ')) entry.remove_prefix(1);
    const auto words = split(entry, ' ');
    const std::string where = "tensor " + std::to_string(layout.tensors().size() + 1) + ": ";
    const bool statistic = words.size() == 3 && words[2] == kStatistic;
    if (words.size() != 2 && !statistic)
      return Error{where + "'" + std::string(entry.substr(0, 80)) + "' is not NAME SHAPE [statistic]"};
    auto shape = parse_shape(words[1]);
    if (!shape) return Error{where + shape.error().message};
    Tensor tensor{std::string(words[0]), std::move(*shape), 0, 0, !statistic};
    if (const Status sound = check_tensor(tensor); !sound) return Error{where + sound.error().message};
    if (layout.tensors().size() >= kTensorsMax)
      return Error{"there are more than " + std::to_string(kTensorsMax) + " tensors"};
    if (!names.insert(tensor.name).second) return Error{where + tensor.name + " occurs twice"};
    if (tensor.trained && !layout.tensors().empty() && !layout.tensors().back().trained)
      return Error{where + tensor.name + " is trained, and follows a statistic"};
    layout.append(std::move(tensor));
    if (layout.arena_size() > kLayoutFloatsMax) return Error{"the tensors have more than 2^40 floats"};
  }
  return layout;
}

std::optional<std::string> difference(const Layout& there, const Layout& here) {
  if (there.fingerprint() == here.fingerprint()) return std::nullopt;
  std::size_t index = 0;
  const std::size_t most = std::max(there.tensors().size(), here.tensors().size());
  while (index + 1 < most && described(there, index) == described(here, index)) ++index;
  return "tensor " + std::to_string(index + 1) + " is " + described(there, index) + " there, and " +
         described(here, index) + " here";
}

}  // namespace starling::models

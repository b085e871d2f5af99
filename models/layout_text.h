// A layout as one line of text, for the manifest of a run: "conv1.weight 6x1x5x5; ...; bn1.running_mean 6
// statistic". Peers compare it to name the first tensor that differs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "models/layout.h"

namespace starling::models {

inline constexpr std::size_t kTensorsMax = 4096;
inline constexpr std::size_t kTensorNameBytesMax = 200;
inline constexpr std::size_t kTensorDimensionsMax = 16;
inline constexpr std::size_t kLayoutFloatsMax = std::size_t{1} << 40;

// An Error unless the tensor can be part of a layout: its name has no spaces, control characters and ';', and
// its extents are positive.
Status check_tensor(const Tensor& tensor);

std::string layout_text(const Layout& layout);
// The Error says which tensor is wrong. Duplicates of names are Errors.
Result<Layout> parse_layout(std::string_view text);

// "6x1x5x5"; "scalar" without extents.
std::string shape_text(const std::vector<std::int64_t>& shape);

// Whole numbers with this character between them. nullopt if one is not a number.
std::string extents_text(const std::vector<std::int64_t>& shape, char separator);
std::optional<std::vector<std::int64_t>> parse_extents(std::string_view text, char separator);

// The first tensor that differs: "tensor 3 is fc1.weight of 120x400 there, and fc1.weight of 84x400 here".
// nullopt if the fingerprints are equal.
std::optional<std::string> difference(const Layout& there, const Layout& here);

}  // namespace starling::models

// What the readers of TOML files have in common. Expensive to compile: for .cc files only.
#pragma once

#include <toml++/toml.h>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "base/text.h"

namespace starling::training {

inline std::string place(const std::string& path, const toml::node& node) {
  return path + ", line " + std::to_string(node.source().begin.line);
}

// The text of a value as a flag would give it; nullopt for arrays, tables and dates.
inline std::optional<std::string> scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = node.as_floating_point()) {
    const double value = number->get();
    if (std::abs(value) < 0x1p53 && value == std::floor(value)) {
      return std::to_string(static_cast<std::int64_t>(value));  // 1e5 where a whole number is wanted
    }
    return format_number(value);
  }
  return std::nullopt;
}

}  // namespace starling::training

// JSON as Starling writes it and as it reads what others wrote. Expensive to compile: for .cc files only. The
// writer and the parser are compiled once, in json.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace starling::training {

using Json = nlohmann::ordered_json;  // keeps the order in which fields were written

// Without spaces and line breaks. Replaces invalid UTF-8.
std::string to_text(const Json& json);
std::string to_line(const Json& json);  // with a newline at its end

struct JsonLimits {
  std::size_t keys = 4096;  // of one object
  std::size_t depth = 64;   // of nested objects and arrays
};

// Takes O(n log n) time for n bytes, and stops at the first thing beyond the limits. The Error is the end of
// a sentence about the text, such as "is not JSON" or "has the key 'x' twice".
Result<Json> parse_json(std::string_view text, const JsonLimits& limits);
// The same within JsonLimits{}; a value for which is_discarded() holds in place of an Error.
Json parse_json(std::string_view text);

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace starling::training

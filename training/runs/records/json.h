// JSON as Starling writes it. Expensive to compile: for .cc files only. The writer is compiled once, in
// json.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace starling::training {

using Json = nlohmann::ordered_json;  // keeps the order in which fields were written

// Without spaces and line breaks. Replaces invalid UTF-8.
std::string to_text(const Json& json);
std::string to_line(const Json& json);  // with a newline at its end

// A value for which is_discarded() holds if the text is not JSON.
Json parse_json(std::string_view text);

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace starling::training

// JSON as Starling writes it. Heavy: for .cc files alone.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace starling::training {

using Json = nlohmann::ordered_json;  // fields stay in the order in which they were written

// Without spaces and line breaks. Bytes that are no UTF-8 are replaced, never an error.
inline std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}
inline std::string to_line(const Json& json) {
  return to_text(json) + "\n";
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace starling::training

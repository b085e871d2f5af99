// Reading the files of a run that have a JSON object on each line. For .cc files of this room.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lab/report/flat_line.h"
#include "training/runs/records/json.h"

namespace starling::lab {

inline Error damaged(const std::string& path, const std::string& how) {
  return Error{path + " is damaged: " + how + "; run it again, or leave this folder out"};
}

// Calls `take` with each complete line of a file: a run that crashed may have left an incomplete last line.
// `what`: the content of the file, for the Error.
template <class Take>
Status for_each_line(const std::string& text, const std::string& path, const char* what, const Take& take) {
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    ++number;
    if (end == std::string::npos) break;
    const training::Json line = training::parse_json(std::string_view(text).substr(at, end - at));
    if (!line.is_object() || !take(line))
      return damaged(path, "line " + std::to_string(number) + " is not a line of a " + what);
    at = end + 1;
  }
  return Done{};
}

// The same for the lines of series, which have no objects and lists in them.
template <class Take>
Status for_each_flat_line(const std::string& text, const std::string& path, const char* what,
                          const Take& take) {
  std::size_t number = 0;
  FlatLine line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    ++number;
    if (end == std::string::npos) break;
    if (!line.read(std::string_view(text).substr(at, end - at)) || !take(line))
      return damaged(path, "line " + std::to_string(number) + " is not a line of a " + what);
    at = end + 1;
  }
  return Done{};
}

inline std::optional<double> figure_in(const training::Json& line, const char* key) {
  const auto at = line.find(key);
  if (at == line.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

}  // namespace starling::lab

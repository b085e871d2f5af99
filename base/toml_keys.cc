#include "base/toml_keys.h"

#include <algorithm>

namespace starling {
namespace {

// Returns the position after the text in quotes that begins at `at`. Text on one line ends with it.
std::size_t skip_quoted(std::string_view toml, std::size_t at) {
  const char quote = toml[at];
  const std::string three(3, quote);
  const bool many_lines = toml.substr(at, 3) == three;
  at += many_lines ? 3 : 1;
  while (at < toml.size()) {
    if (many_lines ? toml.substr(at, 3) == three : toml[at] == quote) return at + (many_lines ? 3 : 1);
    if (!many_lines && toml[at] == '\n') return at;
    at += quote == '"' && toml[at] == '\\' ? 2 : 1;
  }
  return toml.size();
}

}  // namespace

std::optional<int> line_of_deep_key(std::string_view toml) {
  constexpr std::string_view kDelimiters = ",=[]{}\n";
  int dots = 0;
  for (std::size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = skip_quoted(toml, at);
      continue;
    }
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (kDelimiters.find(c) != std::string_view::npos) dots = 0;
    if (c == '.' && ++dots > kKeyDotsMax) return 1 + static_cast<int>(std::count(&toml[0], &toml[at], '\n'));
    ++at;
  }
  return std::nullopt;
}

}  // namespace starling

// Enumerations that are named in text. A table has one row per enumerator, in the enumeration's order; each
// row has a `name`. Parsing, formatting, shell completion and error messages all read the same table.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

template <class Enum, class Table>
constexpr std::optional<Enum> find_named(const Table& table, std::string_view name) {
  for (std::size_t k = 0; k < table.size(); ++k)
    if (table[k].name == name) return static_cast<Enum>(k);
  return std::nullopt;
}

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

}  // namespace starling

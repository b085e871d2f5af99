// Flags whose value is a whole number.
#pragma once

#include <string>

#include "base/result.h"
#include "base/text.h"
#include "cli/shell/arguments.h"

namespace starling::cli {

inline constexpr unsigned kMostThreads = 1024;

// Leaves `value` as it is where the flag was not given; an Error that names the flag where it is no whole
// number from `least` to `most`.
template <class T>
Status read_number(const Arguments& arguments, const std::string& flag, T least, T most, T& value) {
  const auto text = arguments.get(flag);
  if (!text) return Done{};
  const auto number = parse_number<T>(*text);
  if (!number || *number < least || *number > most) {
    return Error{flag + ": '" + *text + "' is not a whole number from " + std::to_string(least) + " to " +
                 std::to_string(most)};
  }
  value = *number;
  return Done{};
}

}  // namespace starling::cli

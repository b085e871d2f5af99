// Flags with numbers or names as values.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/text.h"
#include "cli/shell/arguments.h"

namespace starling::cli {

// Reads a whole number from `least` to `most` into `value`, which stays unchanged if the flag is not given.
// An Error names the flag.
template <class T, class Value>
Status read_number(const Arguments& arguments, const std::string& flag, T least, T most, Value& value) {
  const auto text = arguments.get(flag);
  if (!text) return Done{};
  const auto number = parse_number<T>(*text);
  if (!number || *number < least || *number > most) {
    return Error{flag + ": '" + text->substr(0, 80) + "' is not a whole number from " +
                 std::to_string(least) + " to " + std::to_string(most)};
  }
  value = *number;
  return Done{};
}

// --target, an accuracy. Stays unset if it is not given.
inline Status read_target(const Arguments& arguments, std::optional<double>& target) {
  const auto text = arguments.get("--target");
  if (!text) return Done{};
  const auto number = parse_number<double>(*text);
  if (!number || *number <= 0 || *number > 1)
    return Error{"--target: '" + text->substr(0, 80) + "' is not an accuracy above 0 and at most 1"};
  target = *number;
  return Done{};
}

// --time-from. Stays false if it is not given.
inline Status read_time_from(const Arguments& arguments, bool& from_start) {
  const std::string from = arguments.get("--time-from").value_or("training");
  if (from != "start" && from != "training")
    return Error{"--time-from: '" + from.substr(0, 80) + "' is unknown; expected start or training"};
  from_start = from == "start";
  return Done{};
}
inline Flag time_from_flag() {
  return {.name = "--time-from",
          .placeholder = "MOMENT",
          .help = "times count from the start of the peers, or from when they train (default: training)",
          .values = {"start", "training"}};
}

// --threads; `what`: "threads that compute".
inline Flag threads_flag(const std::string& what, const std::string& section = "") {
  return {.name = "--threads",
          .placeholder = "N",
          .help = what + " (default: all cores); does not change results",
          .section = section};
}
inline Status read_threads(const Arguments& arguments, unsigned& threads) {
  return read_number(arguments, "--threads", 1U, 1024U, threads);
}

// --format, or json if --json is given, or text. An Error if it is not one of `formats`.
template <class Formats>
Result<std::string> read_format(const Arguments& arguments, const Formats& formats) {
  const std::string format = arguments.get("--format").value_or(arguments.has("--json") ? "json" : "text");
  if (std::ranges::find(formats, format) == std::end(formats))
    return Error{"--format: '" + format.substr(0, 80) + "' is unknown; expected " + one_of(formats)};
  if (arguments.has("--json") && format != "json")
    return Error{"--json cannot be combined with --format " + format};
  return format;
}

}  // namespace starling::cli

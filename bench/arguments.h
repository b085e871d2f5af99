// The command line of a benchmark: flags with a value each, and names.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace starling::bench {

// The names. Calls set(flag, value) for each flag; if it returns false or the value is missing, prints an
// error and returns nullopt.
template <class Set>
std::optional<std::vector<std::string>> read_arguments(const char* program, int argc, char** argv,
                                                       const Set& set) {
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (!flag.starts_with("--")) {
      names.emplace_back(flag);
    } else if (i + 1 == argc || !set(flag, argv[i + 1])) {
      std::fprintf(stderr, "%s: unknown argument %s\n", program, argv[i]);
      return std::nullopt;
    } else {
      ++i;
    }
  }
  return names;
}

}  // namespace starling::bench

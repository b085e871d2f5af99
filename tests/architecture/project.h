// This project's sources and its list of exceptions, read once, for the test cases.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/architecture/exceptions.h"
#include "tests/architecture/sources.h"

namespace starling::architecture {

inline const std::string kRoot = STARLING_SOURCE_DIR;
inline const std::string kExceptionsPath = kRoot + "/tests/architecture/exceptions.txt";

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline const std::vector<Source>& sources() {
  static const std::vector<Source> kSources = read_sources(kRoot);
  return kSources;
}

// One per line; empty without findings.
inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

// The differences between the findings of a rule and the list of exceptions.
inline std::string differences(const std::string& rule, const std::vector<Finding>& findings) {
  static const Exceptions kExceptions = read_exceptions(read_text(kExceptionsPath));
  std::vector<Finding> of_rule;
  for (const auto& finding : findings) {
    if (finding.rule == rule) of_rule.push_back(finding);
  }
  return joined(compare(rule, of_rule, kExceptions));
}

}  // namespace starling::architecture

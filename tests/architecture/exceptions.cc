#include "tests/architecture/exceptions.h"

#include <algorithm>
#include <sstream>

namespace starling::architecture {
namespace {

struct Line {
  std::string rule, place;
  int number = 0;
};

bool parse(const std::string& text, Line& line) {
  std::istringstream words(text);
  return !text.starts_with('#') && (words >> line.rule >> line.number) &&
         std::getline(words >> std::ws, line.place);
}

Exceptions numbers_of(const std::vector<Finding>& findings) {
  Exceptions numbers;
  for (const Finding& finding : findings) {
    int& number = numbers[{finding.rule, finding.place}];
    number = std::max(number, finding.number);
  }
  return numbers;
}

}  // namespace

Exceptions read_exceptions(std::string_view text) {
  Exceptions exceptions;
  std::istringstream lines{std::string(text)};
  Line line;
  for (std::string next; std::getline(lines, next);) {
    if (parse(next, line)) exceptions[{line.rule, line.place}] = line.number;
  }
  return exceptions;
}

std::vector<std::string> compare(std::string_view rule, const std::vector<Finding>& findings,
                                 const Exceptions& exceptions) {
  std::vector<std::string> differences;
  const Exceptions found = numbers_of(findings);
  for (const auto& [key, number] : found) {
    const auto listed = exceptions.find(key);
    const std::string what = key.first + " " + std::to_string(number) + " " + key.second;
    if (listed == exceptions.end()) {
      differences.push_back(what + ": over the limit");
    } else if (number > listed->second) {
      differences.push_back(what + ": more than the exception's " + std::to_string(listed->second));
    } else if (number < listed->second) {
      differences.push_back(what + ": better than the exception's " + std::to_string(listed->second) +
                            "; lower it: tests-architecture '[shrink]'");
    }
  }
  for (const auto& [key, number] : exceptions) {
    if (key.first == rule && !found.contains(key))
      differences.push_back(
          key.first + " " + key.second +
          ": an exception that is no longer needed; remove it: tests-architecture '[shrink]'");
  }
  return differences;
}

std::string shrunk(std::string_view text, const std::vector<Finding>& findings) {
  const Exceptions found = numbers_of(findings);
  std::string result;
  std::istringstream lines{std::string(text)};
  Line line;
  for (std::string next; std::getline(lines, next);) {
    if (!parse(next, line)) {
      result += next + "\n";
    } else if (const auto number = found.find({line.rule, line.place}); number != found.end()) {
      const int lower = std::min(line.number, number->second);
      result += line.rule + " " + std::to_string(lower) + " " + line.place + "\n";
    }
  }
  return result;
}

}  // namespace starling::architecture

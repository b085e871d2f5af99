// exceptions.txt lists the places that exceed a limit today, with their current numbers. The list may only
// shrink. A test fails if a place is worse than listed or not listed. It also fails if a place is better, so
// that the list is lowered in the same change.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace starling::architecture {

// A place that breaks a rule, and its number, such as lines of a function or members of a class.
struct Finding {
  std::string rule;   // "function-lines"
  std::string place;  // "node/daemon.cc:run_peer"
  int number = 0;
};

using Exceptions = std::map<std::pair<std::string, std::string>, int>;  // the numbers by rule and place

// Lines of the form "rule number place"; empty lines and those that begin with '#' are comments. The parser
// trusts the file.
Exceptions read_exceptions(std::string_view text);

// The differences between the findings and the exceptions of `rule`, one sentence each; empty without
// differences.
std::vector<std::string> compare(std::string_view rule, const std::vector<Finding>& findings,
                                 const Exceptions& exceptions);

// The text of the list with every number lowered to the current one, without obsolete exceptions. Never adds
// or raises an exception, and keeps the comments.
std::string shrunk(std::string_view text, const std::vector<Finding>& findings);

}  // namespace starling::architecture

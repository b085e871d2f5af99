#include "cli/shell/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"

namespace starling::cli {
namespace {

constexpr std::string_view kOwnPrefix = "STARLING_";
// Read without a flag.
constexpr std::array<std::string_view, 3> kWithoutFlag = {"STARLING_DATA", "STARLING_CUDA_MODULE",
                                                          "STARLING_PROGRAM"};  // of the Python client
// Of tests and scripts; the last two are set by Kubernetes in the pods of a service named starling.
constexpr std::array<std::string_view, 9> kOfOthers = {
    "STARLING_EMULATOR_",    "STARLING_EMULATED_MODULE", "STARLING_PIPEDREAM", "STARLING_TESTS_",
    "STARLING_REACH_INSIDE", "STARLING_CHAOS_",          "STARLING_JOBS",      "STARLING_PORT",
    "STARLING_SERVICE_"};

std::vector<std::string> known_variables(const std::vector<Command>& commands) {
  std::vector<std::string> known(kWithoutFlag.begin(), kWithoutFlag.end());
  const auto add = [&known](const std::vector<Flag>& flags) {
    for (const Flag& flag : flags)
      if (!flag.environment.empty()) known.push_back(flag.environment);
  };
  add(shared_flags());
  for (const Command& command : commands) add(command.flags);
  return known;
}

}  // namespace

std::string problem_of_variable(std::string_view name, const std::vector<Command>& commands) {
  constexpr std::size_t kLongest = 64;  // that is compared and shown
  if (!name.starts_with(kOwnPrefix)) return "";
  if (std::ranges::any_of(kOfOthers, [&](std::string_view other) { return name.starts_with(other); }))
    return "";
  const std::vector<std::string> known = known_variables(commands);
  if (std::ranges::find(known, name) != known.end()) return "";
  std::string text =
      "the variable " + std::string(name.substr(0, kLongest)) + " names no setting and is ignored";
  const std::string* near = name.size() <= kLongest ? nearest(name, known) : nullptr;
  // A word of three letters with two edits is another word.
  if (near != nullptr && 2 * edit_distance(name, *near) <= near->size() - kOwnPrefix.size())
    text += "; did you mean " + *near + "?";
  return text;
}

std::vector<std::string> problems_of_environment(const std::vector<Command>& commands) {
  std::vector<std::string> problems;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    std::string problem = problem_of_variable(text.substr(0, text.find('=')), commands);
    if (!problem.empty()) problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace starling::cli

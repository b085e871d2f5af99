#include "cli/commands/run/sources.h"

#include <cstdlib>
#include <sstream>

#include "cli/commands/run/experiment_flags.h"
#include "training/runs/experiment/experiment_file.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::cli {
namespace {

constexpr std::string_view kTable = "daemon.";

// The values of a variable; a repeatable flag's are separated by commas.
std::vector<std::string> values_of(const Flag& flag, const std::string& text) {
  if (!flag.repeatable) return {text};
  std::vector<std::string> values;
  std::istringstream parts(text);
  for (std::string value; std::getline(parts, value, ',');) {
    value.erase(value.find_last_not_of(' ') + 1);
    value.erase(0, value.find_first_not_of(' '));
    if (!value.empty()) values.push_back(std::move(value));
  }
  return values;
}

Result<const Flag*> flag_with(const std::string& key, const std::vector<Flag>& flags,
                              const std::string& place) {
  std::vector<std::string> keys;
  for (const Flag& flag : flags) {
    if (flag.only_on_the_command_line || flag.key.empty()) continue;
    if (flag.key == key) return &flag;
    keys.push_back(flag.key);
  }
  return Error{place + ": " + training::unknown_key(key, keys)};
}

// --set daemon.KEY=VALUE is removed from --set, which belongs to the experiment.
Status add_sets(Arguments& arguments, const std::vector<Flag>& flags) {
  std::vector<std::string> others;
  const auto sets = split_sets(arguments);
  if (!sets) return sets.error();
  for (const auto& [key, value] : *sets) {
    if (!key.starts_with(kTable)) {
      others.push_back(key + "=" + value);
      continue;
    }
    const auto flag = flag_with(key, flags, "--set");
    if (!flag) return flag.error();
    if (!arguments.has((*flag)->name))
      arguments.set((*flag)->name, values_of(**flag, value), "--set: " + key);
  }
  if (others.size() != sets->size()) arguments.set("--set", std::move(others));
  return Done{};
}

Status add_file(Arguments& arguments, const std::vector<Flag>& flags, const std::string& path) {
  const auto entries = training::read_daemon_table(path);
  if (!entries) return entries.error();
  for (const training::DaemonEntry& entry : *entries) {
    const std::string key = std::string(kTable) + entry.key;
    const auto flag = flag_with(key, flags, entry.place);
    if (!flag) return flag.error();
    if (entry.values.size() > 1 && !(*flag)->repeatable)
      return Error{entry.place + ": " + key + ": expected a single value"};
    if (!arguments.has((*flag)->name)) arguments.set((*flag)->name, entry.values, entry.place + ": " + key);
  }
  return Done{};
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

void add_environment(Arguments& arguments, const std::vector<Flag>& flags) {
  for (const Flag& flag : flags) {
    if (flag.only_on_the_command_line || flag.environment.empty() || arguments.has(flag.name)) continue;
    const char* const text = std::getenv(flag.environment.c_str());
    if (text == nullptr || *text == '\0') continue;
    arguments.set(flag.name, values_of(flag, text), flag.environment);
  }
}

Status add_sources(Arguments& arguments, const std::vector<Flag>& flags) {
  if (Status added = add_sets(arguments, flags); !added) return added;
  add_environment(arguments, flags);
  if (const auto file = arguments.get("--config")) return add_file(arguments, flags, *file);
  return Done{};
}

std::string daemon_table(const Arguments& arguments, const std::vector<Flag>& flags) {
  std::string text;
  for (const Flag& flag : flags) {
    if (flag.key.empty() || !arguments.has(flag.name)) continue;
    std::string value;
    for (const std::string& one : arguments.all(flag.name))
      value += (value.empty() ? "" : ", ") + quoted(one);
    text += flag.key.substr(kTable.size()) + " = " + (flag.repeatable ? "[" + value + "]" : value) + "\n";
  }
  return text.empty() ? text : "\n[daemon]\n" + text;
}

}  // namespace starling::cli

#include "cli/shell/command.h"

#include <algorithm>

namespace starling::cli {

const std::vector<Flag>& shared_flags() {
  static const std::vector<Flag> kFlags = {
      {"--log-format", "NAME", "format of the log: text (default), or json with one object per line", false,
       false, "Log", false, "STARLING_LOG_FORMAT"},
      {"--log-level", "NAME", "lowest level that is logged: trace, debug, info (default), warning or error",
       false, false, "Log", false, "STARLING_LOG_LEVEL"},
  };
  return kFlags;
}

std::vector<Flag> visible_flags(const Command& command) {
  std::vector<Flag> flags = command.flags;
  flags.insert(flags.end(), shared_flags().begin(), shared_flags().end());
  std::erase_if(flags, [](const Flag& flag) { return flag.hidden; });
  return flags;
}

const Command* find_command(const std::vector<Command>& commands, const std::string& path) {
  const auto at = std::ranges::find(commands, path, &Command::path);
  return at == commands.end() ? nullptr : &*at;
}

std::vector<std::string> next_words(const std::vector<Command>& commands, const std::string& group) {
  const std::string prefix = group.empty() ? "" : group + " ";
  std::vector<std::string> words;
  for (const Command& command : commands) {
    if (command.hidden || !command.path.starts_with(prefix)) continue;
    const std::string rest = command.path.substr(prefix.size());
    const std::string word = rest.substr(0, rest.find(' '));
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return words;
}

}  // namespace starling::cli

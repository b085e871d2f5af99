#include "cli/shell/help.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "datasets/catalogue.h"
#include "models/spec.h"
#include "topologies/topology.h"
#include "training/runs/experiment/settings/settings.h"

namespace starling::cli {
namespace {

using Words = std::vector<std::string>;

const Words kShells = {"bash", "zsh", "fish"};

// The names that a flag accepts; empty for other values. A name may be the beginning of a longer value.
const Words& names_for(const std::string& flag) {
  static const std::map<std::string, Words> kNames = [] {
    std::map<std::string, Words> names = {
        {"", {}},
        {"--partition", {"iid", "dirichlet:alpha=", "by-label", "by-document", "contiguous", "whole"}},
        {"--device", {"auto", "cpu", "cuda:0"}},
        {"--log-level", {"trace", "debug", "info", "warning", "error"}},
        {"--log-format", {"text", "json"}},
        {"--model", models::model_names()},
    };
    for (const auto& entry : datasets::catalogue()) names["--data"].emplace_back(entry.name);
    for (const auto& entry : topologies::names()) {
      const std::string name = entry.name;  // "torus:rows=R,columns=C"
      names["--topology"].push_back(name.substr(0, name.find_first_of(":[ ")));
    }
    for (const training::Setting& setting : training::settings())
      if (!setting.choices.empty()) names[setting.flag] = setting.choices;
    return names;
  }();
  const auto at = kNames.find(flag);
  return at == kNames.end() ? kNames.at("") : at->second;
}

// The same for a command's first positional.
const Words& names_for_positional(const Command& command) {
  if (command.path == "completion") return kShells;
  const std::string group = command.path.substr(0, command.path.find(' '));
  if (group == "topology" || group == "model" || group == "data" || group == "log-level" || group == "rule")
    return names_for("--" + group);
  return names_for("");
}

// What the shell completes itself: "directory", "file" or nothing.
std::string action_of(const std::string& placeholder) {
  if (placeholder == "DIR") return "directory";
  const bool file =
      placeholder.find("FILE") != std::string::npos || placeholder.find("PATH") != std::string::npos;
  return file ? "file" : "";
}

// A command's summary; for a group, the names of its commands.
std::string summary_of(const std::vector<Command>& commands, const std::string& path) {
  const Command* command = find_command(commands, path);
  return command != nullptr ? command->summary
                            : fmt::format("{}", fmt::join(next_words(commands, path), ", "));
}

std::string join(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

// Patterns for the command so far and the next word, in bash and zsh: " topology" | "topology show" | ...
std::string word_patterns(const std::vector<Command>& commands) {
  Words patterns;
  for (const std::string& word : next_words(commands, "")) {
    patterns.push_back("\" " + word + "\"");
    for (const std::string& second : next_words(commands, word))
      patterns.push_back("\"" + word + " " + second + "\"");
  }
  return fmt::format("{}", fmt::join(patterns, " | "));
}

std::vector<Flag> completed_flags(const Command& command) {
  std::vector<Flag> flags = visible_flags(command);
  flags.push_back({"--help", "", "describe the command, with an example"});
  return flags;
}

struct BashCases {
  std::string words;   // per command: its flags, those with a value, and the names for its first positional
  std::string values;  // per command and flag: the values that can be completed
};

BashCases bash_cases(const std::vector<Command>& commands) {
  BashCases cases;
  for (const Command& command : commands) {
    Words flags, valued;
    for (const Flag& flag : completed_flags(command)) {
      flags.push_back(flag.name);
      if (!flag.placeholder.empty()) valued.push_back(flag.name);
      Words options;
      if (const Words& names = names_for(flag.name); !names.empty())
        options.push_back("-W \"" + join(names) + "\"");
      if (const std::string action = action_of(flag.placeholder); !action.empty())
        options.push_back("-A " + action);
      if (!options.empty())
        cases.values +=
            fmt::format("      \"{} {}\") mapfile -t COMPREPLY < <(compgen {} -- \"$current\") ;;\n",
                        command.path, flag.name, join(options));
    }
    cases.words += fmt::format("    \"{}\")\n      flags=\"{}\"\n", command.path, join(flags));
    if (!valued.empty()) cases.words += fmt::format("      valued=\" {} \"\n", join(valued));
    if (const Words& names = names_for_positional(command); !names.empty())
      cases.words += fmt::format("      values=\"{}\"\n", join(names));
    cases.words += "      ;;\n";
  }
  return cases;
}

std::string bash_script(const std::vector<Command>& commands) {
  const BashCases cases = bash_cases(commands);
  // The command consists of the words before the first flag, as long as they name one.
  std::string text = R"(# starling: completion for bash, made by `starling completion bash`.
_starling() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local path= flags= values= valued= word i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word == -* ]] && break
    case "$path $word" in
)";
  text += fmt::format("      {}) path=\"${{path:+$path }}$word\" ;;\n      *) break ;;\n    esac\n  done\n",
                      word_patterns(commands));
  text += "  case \"$path\" in\n";
  text += fmt::format("    \"\") values=\"{} help\" flags=\"--help --version\" ;;\n",
                      join(next_words(commands, "")));
  for (const std::string& word : next_words(commands, "")) {
    if (const Words second = next_words(commands, word); !second.empty())
      text += fmt::format("    \"{}\") values=\"{}\" flags=\"--help\" ;;\n", word, join(second));
  }
  text += cases.words;
  text += R"(  esac
  # The value of the flag before it.
  if [[ $valued == *" $previous "* ]]; then
    case "$path $previous" in
)";
  text += cases.values;
  text += R"(    esac
    return
  fi
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  elif [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
  fi
}
complete -o default -F _starling starling
)";
  return text;
}

// Escapes each special character with a backslash.
std::string escaped(const std::string& text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// In single quotes, for zsh.
std::string zsh_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// How _arguments completes a value: names, files, both, or only a description.
std::string zsh_action(const Words& names, const std::string& placeholder) {
  const std::string files = action_of(placeholder);
  const std::string words = escaped(join(names), ":\\");
  if (names.empty()) return files.empty() ? " " : files == "directory" ? "_directories" : "_files";
  return files.empty() ? "(" + words + ")" : " _starling_names_or_files " + words;
}

// A command's flags and positionals, for _arguments (zshcompsys(1)).
std::string zsh_arguments(const Command& command) {
  std::string text = fmt::format("    '{}')\n      _arguments", command.path);
  const auto add = [&text](const std::string& spec) { text += " \\\n        " + zsh_quoted(spec); };
  for (const Flag& flag : completed_flags(command)) {
    std::string spec = (flag.repeatable ? "*" : "") + flag.name;
    const std::string help = "[" + escaped(flag.help, "[]:\\") + "]";
    spec += flag.placeholder.empty() ? help
                                     : "=" + help + ":" + escaped(flag.placeholder, ":\\") + ":" +
                                           zsh_action(names_for(flag.name), flag.placeholder);
    add(spec);
  }
  Words names = names_for_positional(command);
  for (const Positional& positional : command.positionals) {
    // A positional without known names is mostly the path of a file.
    const std::string action = names.empty() && action_of(positional.name).empty()
                                   ? "_files"
                                   : zsh_action(std::exchange(names, {}), positional.name);
    const char* number = positional.repeatable ? "*:" : positional.required ? ":" : "::";
    add(number + escaped(positional.name, ":\\") + ":" + action);
  }
  return text + " ;;\n";
}

// Commands are completed by _describe.
std::string zsh_script(const std::vector<Command>& commands) {
  Words groups = {""};
  for (const std::string& word : next_words(commands, ""))
    if (!next_words(commands, word).empty()) groups.push_back(word);
  std::string text = fmt::format(R"zsh(#compdef starling
# Completion for zsh, made by `starling completion zsh`.
# Source it, or save it as _starling in a folder of $fpath.
_starling_names_or_files() {{
  _alternative "names:name:(${{(j: :)${{(q)@}}}})" 'files:file:_files'
}}
_starling() {{
  local command= i
  local -a next
  for ((i = 2; i < CURRENT; i++)); do
    case "$command $words[i]" in
      {}) command="${{command:+$command }}$words[i]" ;;
      *) break ;;
    esac
  done
  # From here on the command is one word.
  shift $((i - 2)) words
  ((CURRENT -= i - 2))
  case $command in
)zsh",
                                 word_patterns(commands));
  for (const std::string& group : groups) {
    text += fmt::format("    '{}')\n      next=(\n", group);
    for (const std::string& word : next_words(commands, group)) {
      const std::string summary = summary_of(commands, group.empty() ? word : group + " " + word);
      text += "        " + zsh_quoted(word + ":" + summary) + "\n";
    }
    text += "      )\n      _describe -t commands command next ;;\n";
  }
  for (const Command& command : commands) text += zsh_arguments(command);
  return text + R"(  esac
}
if [[ $funcstack[1] == _starling ]]; then
  _starling "$@"
else
  compdef _starling starling
fi
)";
}

// In single quotes, for fish.
std::string fish_quoted(const std::string& text) { return "'" + escaped(text, "'\\") + "'"; }

std::string fish_script(const std::vector<Command>& commands) {
  std::string text =
      "# starling: completion for fish, made by `starling completion fish`.\ncomplete -c starling -f\n";
  for (const std::string& word : next_words(commands, "")) {
    text += fmt::format("complete -c starling -n __fish_use_subcommand -a {} -d {}\n", word,
                        fish_quoted(summary_of(commands, word)));
  }
  for (const Command& command : commands) {
    const std::size_t space = command.path.find(' ');
    const std::string group = command.path.substr(0, space);
    std::string when = "__fish_seen_subcommand_from " + group;
    if (space != std::string::npos) {
      const std::string second = command.path.substr(space + 1);
      text += fmt::format(
          "complete -c starling -n {} -a {} -d {}\n",
          fish_quoted(when + "; and not __fish_seen_subcommand_from " + join(next_words(commands, group))),
          second, fish_quoted(command.summary));
      when += "; and __fish_seen_subcommand_from " + second;
    }
    if (const Words& names = names_for_positional(command); !names.empty())
      text += fmt::format("complete -c starling -n {} -a {}\n", fish_quoted(when), fish_quoted(join(names)));
    else if (!command.positionals.empty())
      text += fmt::format("complete -c starling -n {} -F\n", fish_quoted(when));
    for (const Flag& flag : completed_flags(command)) {
      text += fmt::format("complete -c starling -n {} -l {}", fish_quoted(when), flag.name.substr(2));
      if (!flag.placeholder.empty()) text += action_of(flag.placeholder).empty() ? " -x" : " -rF";
      if (const Words& names = names_for(flag.name); !names.empty() && !flag.placeholder.empty())
        text += " -a " + fish_quoted(join(names));
      text += " -d " + fish_quoted(flag.help) + "\n";
    }
  }
  return text;
}

}  // namespace

Result<std::string> completion_script(const std::string& shell, std::vector<Command> commands) {
  std::erase_if(commands, [](const Command& command) { return command.hidden; });
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  return Error{"unknown shell '" + shell.substr(0, 80) + "'; expected " + one_of(kShells)};
}

}  // namespace starling::cli

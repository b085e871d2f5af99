#include "cli/shell/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "datasets/catalogue.h"
#include "models/spec.h"
#include "topologies/topology.h"
#include "training/experiment/experiment.h"
#include "training/experiment/settings.h"

namespace starling::cli {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kShells[] = {"bash", "zsh", "fish"};

// The values of flags that take names, by flag. A name may be the beginning of a longer one.
std::map<std::string, Words> known_values() {
  std::map<std::string, Words> values = {
      {"--partition", {"iid", "dirichlet:alpha=", "by-label", "whole"}},
      {"--device", {"auto", "cpu", "cuda:0"}},
      {"--log-level", {"trace", "debug", "info", "warning", "error"}},
      {"--log-format", {"text", "json"}},
  };
  values["--model"] = models::model_names();
  for (const auto& entry : datasets::catalogue()) values["--data"].emplace_back(entry.name);
  for (const auto& entry : topologies::names()) {
    const std::string name = entry.name;  // "torus:rows=R,columns=C"
    values["--topology"].push_back(name.substr(0, name.find_first_of(":[ ")));
  }
  for (const training::Setting& setting : training::settings())
    if (!setting.choices.empty()) values[setting.flag] = setting.choices;
  return values;
}

// The same for a command's first positional.
Words known_positionals(const Command& command, const std::map<std::string, Words>& values) {
  if (command.path.starts_with("topology ")) return values.at("--topology");
  if (command.path.starts_with("model ")) return values.at("--model");
  if (command.path.starts_with("data ")) return values.at("--data");
  if (command.path == "completion") return {std::begin(kShells), std::end(kShells)};
  if (command.path == "log-level") return values.at("--log-level");
  return {};
}

// What the shell completes by itself: files, folders, or nothing.
std::string action_of(const std::string& placeholder) {
  if (placeholder == "DIR") return "directory";
  if (placeholder.find("FILE") != std::string::npos || placeholder.find("PATH") != std::string::npos)
    return "file";
  return "";
}

Words next_words(const std::vector<Command>& commands, const std::string& group) {
  Words words;
  for (const Command& command : commands) {
    if (command.hidden) continue;
    std::string rest = command.path;
    if (!group.empty()) {
      if (!rest.starts_with(group + " ")) continue;
      rest = rest.substr(group.size() + 1);
    }
    rest = rest.substr(0, rest.find(' '));
    if (std::find(words.begin(), words.end(), rest) == words.end()) words.push_back(rest);
  }
  return words;
}

// A command's summary; for a group, the names of its commands.
std::string summary_of(const std::vector<Command>& commands, const std::string& path) {
  for (const Command& command : commands)
    if (command.path == path) return command.summary;
  return fmt::format("{}", fmt::join(next_words(commands, path), ", "));
}

std::string join(const Words& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// Patterns for "the command so far, and the next word", in bash and zsh: " topology" | "topology show" | ...
std::string word_patterns(const std::vector<Command>& commands) {
  Words patterns;
  for (const std::string& word : next_words(commands, "")) {
    patterns.push_back("\" " + word + "\"");
    for (const std::string& second : next_words(commands, word))
      patterns.push_back("\"" + word + " " + second + "\"");
  }
  return fmt::format("{}", fmt::join(patterns, " | "));
}

std::vector<Flag> visible_flags(const Command& command, const std::vector<Flag>& shared) {
  std::vector<Flag> flags;
  for (const auto* table : {&command.flags, &shared})
    for (const Flag& flag : *table)
      if (!flag.hidden) flags.push_back(flag);
  flags.push_back({"--help", "", "this command's flags, and an example"});
  return flags;
}

using Values = std::map<std::string, Words>;

// A case per command: its flags, those that take a value, and the values of its first positional.
std::string bash_words(const std::vector<Command>& commands, const std::vector<Flag>& shared,
                       const Values& values) {
  std::string text;
  for (const Command& command : commands) {
    if (command.hidden) continue;
    Words flags, valued;
    for (const Flag& flag : visible_flags(command, shared)) {
      flags.push_back(flag.name);
      if (!flag.placeholder.empty()) valued.push_back(flag.name);
    }
    text += fmt::format("    \"{}\")\n      flags=\"{}\"\n", command.path, join(flags));
    if (!valued.empty()) text += fmt::format("      valued=\" {} \"\n", join(valued));
    if (const Words known = known_positionals(command, values); !known.empty())
      text += fmt::format("      values=\"{}\"\n", join(known));
    text += "      ;;\n";
  }
  return text;
}

// A case per command and flag whose values are known.
std::string bash_values(const std::vector<Command>& commands, const std::vector<Flag>& shared,
                        const Values& values) {
  std::string text;
  for (const Command& command : commands) {
    if (command.hidden) continue;
    for (const Flag& flag : visible_flags(command, shared)) {
      const auto known = values.find(flag.name);
      const std::string action = action_of(flag.placeholder);
      Words options;
      if (known != values.end()) options.push_back("-W \"" + join(known->second) + "\"");
      if (!action.empty()) options.push_back("-A " + action);
      if (options.empty()) continue;
      text += fmt::format("      \"{} {}\") mapfile -t COMPREPLY < <(compgen {} -- \"$current\") ;;\n",
                          command.path, flag.name, join(options));
    }
  }
  return text;
}

std::string bash_script(const std::vector<Command>& commands, const std::vector<Flag>& shared) {
  const Values values = known_values();
  // The command is made of the words before the first flag, as long as they name one.
  std::string text = R"(# starling: completion for bash, made by `starling completion bash`.
_starling() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path= flags= values= valued= word i
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
  text += bash_words(commands, shared, values);
  text += R"(  esac
  # A flag's value, where the word before is a flag that has one.
  if [[ $valued == *" $previous "* ]]; then
    case "$path $previous" in
)";
  text += bash_values(commands, shared, values);
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
std::string zsh_arguments(const Command& command, const std::vector<Flag>& shared, const Values& values) {
  std::string text = fmt::format("    '{}')\n      _arguments", command.path);
  const auto add = [&text](const std::string& spec) { text += " \\\n        " + zsh_quoted(spec); };
  for (const Flag& flag : visible_flags(command, shared)) {
    std::string spec = (flag.repeatable ? "*" : "") + flag.name;
    const std::string help = "[" + escaped(flag.help, "[]:\\") + "]";
    const auto known = values.find(flag.name);
    if (flag.placeholder.empty()) {
      spec += help;
    } else {
      spec += "=" + help + ":" + escaped(flag.placeholder, ":\\") + ":" +
              zsh_action(known == values.end() ? Words{} : known->second, flag.placeholder);
    }
    add(spec);
  }
  Words names = known_positionals(command, values);
  for (const Positional& positional : command.positionals) {
    // A positional without known values is mostly the path of a file.
    const std::string action = names.empty() && action_of(positional.name).empty()
                                   ? "_files"
                                   : zsh_action(std::exchange(names, {}), positional.name);
    add((positional.repeatable ? "*:"
         : positional.required ? ":"
                               : "::") +
        escaped(positional.name, ":\\") + ":" + action);
  }
  return text + " ;;\n";
}

// Commands are completed by _describe.
std::string zsh_script(const std::vector<Command>& commands, const std::vector<Flag>& shared) {
  const Values values = known_values();
  Words groups = {""};
  for (const std::string& word : next_words(commands, ""))
    if (!next_words(commands, word).empty()) groups.push_back(word);
  std::string text = fmt::format(R"zsh(#compdef starling
# Completion for zsh, made by `starling completion zsh`: to be sourced, or called _starling in a folder of $fpath.
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
  # What follows sees the command as one word.
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
  for (const Command& command : commands)
    if (!command.hidden) text += zsh_arguments(command, shared, values);
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
std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string fish_script(const std::vector<Command>& commands, const std::vector<Flag>& shared) {
  const Values values = known_values();
  std::string text =
      "# starling: completion for fish, made by `starling completion fish`.\ncomplete -c starling -f\n";
  for (const std::string& word : next_words(commands, "")) {
    text += fmt::format("complete -c starling -n __fish_use_subcommand -a {} -d {}\n", word,
                        fish_quoted(summary_of(commands, word)));
  }
  for (const Command& command : commands) {
    if (command.hidden) continue;
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
    if (const Words known = known_positionals(command, values); !known.empty())
      text += fmt::format("complete -c starling -n {} -a {}\n", fish_quoted(when), fish_quoted(join(known)));
    else if (!command.positionals.empty())
      text += fmt::format("complete -c starling -n {} -F\n", fish_quoted(when));
    for (const Flag& flag : visible_flags(command, shared)) {
      text += fmt::format("complete -c starling -n {} -l {}", fish_quoted(when), flag.name.substr(2));
      if (!flag.placeholder.empty()) text += action_of(flag.placeholder).empty() ? " -x" : " -rF";
      if (const auto known = values.find(flag.name); known != values.end() && !flag.placeholder.empty())
        text += " -a " + fish_quoted(join(known->second));
      text += " -d " + fish_quoted(flag.help) + "\n";
    }
  }
  return text;
}

}  // namespace

Result<std::string> completion_script(const std::string& shell, const std::vector<Command>& commands,
                                      const std::vector<Flag>& shared) {
  if (shell == "bash") return bash_script(commands, shared);
  if (shell == "zsh") return zsh_script(commands, shared);
  if (shell == "fish") return fish_script(commands, shared);
  return Error{"'" + shell.substr(0, 80) + "' is not supported; expected " + one_of(kShells)};
}

}  // namespace starling::cli

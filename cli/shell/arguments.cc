#include "cli/shell/arguments.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <list>
#include <string_view>

#include "base/nearest.h"
#include "cli/shell/help.h"
#include "cli/shell/log.h"

namespace starling::cli {
namespace {

int complain(const std::string& command, const std::string& message, int exit_code) {
  tell(Told::complaint, "starling" + (command.empty() ? "" : " " + command) + ": " + message);
  return exit_code;
}

std::string help_hint(const std::string& command) {
  return "; see `starling " + (command.empty() ? std::string() : command + " ") + "--help`";
}

// One command's place in the parser, and where the parser puts what it finds.
struct Parsed {
  const Command* command;
  CLI::App* app;
  std::map<std::string, std::vector<std::string>> texts;
  std::map<std::string, bool> switches;
};

CLI::App* find_or_add_group(CLI::App& root, const std::string& name) {
  for (CLI::App* group : root.get_subcommands({})) {
    if (group->get_name() == name) return group;
  }
  CLI::App* group = root.add_subcommand(name);
  group->require_subcommand(0, 1);
  return group;
}

void describe(Parsed& parsed, CLI::App& root) {
  const Command& command = *parsed.command;
  const std::size_t space = command.path.find(' ');
  if (space == std::string::npos) {
    parsed.app = root.add_subcommand(command.path);
  } else {
    CLI::App* group = find_or_add_group(root, command.path.substr(0, space));
    parsed.app = group->add_subcommand(command.path.substr(space + 1));
  }
  // Which positionals are missing is checked by hand.
  for (const Positional& positional : command.positionals) {
    CLI::Option* option = parsed.app->add_option(positional.name, parsed.texts[positional.name]);
    if (positional.repeatable)
      option->expected(-1);
    else
      option->expected(1)->allow_extra_args(false);
  }
  for (const auto* table : {&command.flags, &shared_flags()}) {
    for (const Flag& flag : *table) {
      if (flag.placeholder.empty()) {
        parsed.app->add_flag(flag.name, parsed.switches[flag.name]);
      } else {
        parsed.app->add_option(flag.name, parsed.texts[flag.name])
            ->expected(1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->allow_extra_args(false);
      }
    }
  }
}

// The chain of subcommands that the command line named, as far as it got: "topology show".
std::string named_command(const CLI::App& root) {
  std::string path;
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    path += (path.empty() ? "" : " ") + app->get_name();
  }
  return path;
}

constexpr std::size_t kLongestCompared = 64;  // of what came from outside

// "; did you mean swarm?", where one of `names` is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  if (word.size() > kLongestCompared) return "";
  const std::string* name = nearest(word, names);
  // Two slips in three letters are another word.
  if (name == nullptr || 2 * edit_distance(word, *name) > name->size()) return "";
  return "; did you mean " + *name + "?";
}

const Command* find_command(const std::vector<Command>& commands, const std::string& path) {
  const auto at = std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.path == path; });
  return at == commands.end() ? nullptr : &*at;
}

bool is_group(const std::vector<Command>& commands, const std::string& word) {
  return std::any_of(commands.begin(), commands.end(),
                     [&](const Command& command) { return command.path.starts_with(word + " "); });
}

// What may follow `starling`, or `starling GROUP`.
std::vector<std::string> words_behind(const std::vector<Command>& commands, const std::string& group) {
  std::vector<std::string> words;
  for (const Command& command : commands) {
    std::string word = command.path;
    if (command.hidden) continue;
    if (!group.empty()) {
      if (!word.starts_with(group + " ")) continue;
      word = word.substr(group.size() + 1);
    }
    word = word.substr(0, word.find(' '));
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

std::string unknown_flag(const std::vector<Command>& commands, const std::string& path, const std::string& flag) {
  std::string text = flag + " is no flag of this command";
  const Command* command = find_command(commands, path);
  std::vector<std::string> names = {"--help"};
  if (command == nullptr) names.emplace_back("--version");
  if (command != nullptr) {
    for (const auto* table : {&command->flags, &shared_flags()})
      for (const Flag& known : *table)
        if (!known.hidden) names.push_back(known.name);
  }
  const std::string near = did_you_mean(flag, names);
  if (!near.empty()) return text + near;
  for (const Command& other : commands) {
    if (std::any_of(other.flags.begin(), other.flags.end(),
                    [&](const Flag& known) { return known.name == flag && !known.hidden; })) {
      return text + "; `starling " + other.path + "` has it";
    }
  }
  return text;
}

std::string unknown_word(const std::vector<Command>& commands, const std::string& path, const std::string& word) {
  if (find_command(commands, path) != nullptr) return "\"" + word + "\" is one argument too many";
  std::string text = "\"" + word + "\" is no command";
  const std::string near = did_you_mean(word, words_behind(commands, path));
  if (!near.empty() || !path.empty()) return text + near;
  // Its second word alone, such as "compare".
  for (const Command& command : commands)
    if (command.path.ends_with(" " + word)) return text + "; did you mean " + command.path + "?";
  return text;
}

// The library's sentence in our form.
std::string explain(const CLI::ParseError& error, const CLI::App& root, const std::string& path,
                    const std::vector<Command>& commands) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = root.remaining(true);
    const std::string first = extras.empty() ? text : extras.front();
    if (first.starts_with("-")) return unknown_flag(commands, path, first.substr(0, first.find('=')));
    return unknown_word(commands, path, first);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.starts_with("-")) {
    return text.substr(0, text.find(':')) + " needs a value";
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // Texts convert to texts, so it is a switch: "Could not convert: --json = maybe".
    const std::size_t dashes = text.find("--");
    if (dashes != std::string::npos)
      return text.substr(dashes, text.find(' ', dashes) - dashes) + " takes no value";
  }
  return text;
}

// What --help asks for, if it does: `help topology show`, `swarm --help all`. Nothing where the words name no
// command: that is said as of any other call.
std::optional<std::string> asked_help(int argc, const char* const* argv, const std::vector<Command>& commands) {
  std::vector<std::string> words(argv + 1, argv + argc);
  bool asked = false, all = false;
  if (!words.empty() && words.front() == "help") {
    asked = true;
    words.erase(words.begin());
  }
  std::string path;
  bool naming = true;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word == "--help-all" || word == "--help=all") {
      asked = all = true;
    } else if (word == "--help" || word == "-h") {
      asked = true;
      all |= i + 1 < words.size() && words[i + 1] == "all";
    }
    if (word.starts_with("-")) naming = false;
    if (!naming) continue;
    const std::string longer = path.empty() ? word : path + " " + word;
    if (find_command(commands, longer) != nullptr || is_group(commands, longer)) {
      path = longer;
    } else if (find_command(commands, path) == nullptr) {
      return std::nullopt;
    }
  }
  if (!asked) return std::nullopt;
  if (const Command* command = find_command(commands, path)) return help_text(*command, shared_flags(), all);
  return help_text(commands, path, shared_flags());
}

int run_parsed(Parsed& parsed) {
  const Command& command = *parsed.command;
  Arguments arguments(command.path);
  for (const Positional& positional : command.positionals) {
    std::vector<std::string>& values = parsed.texts[positional.name];
    if (values.empty() && positional.required) {
      return complain(command.path, positional.name + " is missing" + help_hint(command.path), kExitBadInput);
    }
    if (!values.empty()) arguments.set(positional.name, std::move(values));
  }
  std::vector<Flag> flags = command.flags;
  flags.insert(flags.end(), shared_flags().begin(), shared_flags().end());
  for (const Flag& flag : flags) {
    if (flag.placeholder.empty()) {
      if (parsed.switches[flag.name]) arguments.set(flag.name, {"true"});
      continue;
    }
    std::vector<std::string>& values = parsed.texts[flag.name];
    if (values.size() > 1 && !flag.repeatable) {
      return complain(command.path, flag.name + " is given more than once", kExitBadInput);
    }
    if (!values.empty()) arguments.set(flag.name, std::move(values));
  }
  if (Status set = set_log(arguments.get("--log-format"), arguments.get("--log-level")); !set)
    return complain(command.path, set.error().message, kExitBadInput);
  return command.run(arguments);
}

}  // namespace

const std::vector<Flag>& shared_flags() {
  static const std::vector<Flag> kFlags = {
      {"--log-format", "NAME", "of the log on standard error: text (default), or json, an object a line", false, false, "Log",
       false, "STARLING_LOG_FORMAT"},
      {"--log-level", "NAME", "trace, debug, info (default), warning or error, and what is worse", false, false, "Log",
       false, "STARLING_LOG_LEVEL"},
  };
  return kFlags;
}

std::optional<std::string> Arguments::get(const std::string& name) const {
  const auto at = values_.find(name);
  if (at == values_.end()) return std::nullopt;
  return at->second.front();
}

const std::vector<std::string>& Arguments::all(const std::string& name) const {
  static const std::vector<std::string> kNone;
  const auto at = values_.find(name);
  return at == values_.end() ? kNone : at->second;
}

std::string Arguments::place(const std::string& name) const {
  const auto at = places_.find(name);
  return at == places_.end() ? name : at->second;
}

void Arguments::set(const std::string& name, std::vector<std::string> values, const std::string& place) {
  values_[name] = std::move(values);
  if (!place.empty()) places_[name] = place;
}

namespace {

// A sentence that begins with a flag is about what was said, perhaps elsewhere.
std::string at_its_place(const Arguments& arguments, const std::string& sentence) {
  if (!sentence.starts_with("--")) return sentence;
  const std::string flag = sentence.substr(0, sentence.find_first_of(": "));
  return arguments.place(flag) + sentence.substr(flag.size());
}

}  // namespace

int refuse(const Arguments& arguments, const std::string& message) {
  return complain(arguments.command(), at_its_place(arguments, message), kExitBadInput);
}

int fail(const Arguments& arguments, const std::string& message) {
  return complain(arguments.command(), at_its_place(arguments, message), kExitRunFailed);
}

int run_command_line(int argc, const char* const* argv, const std::vector<Command>& commands) {
  if (const auto help = asked_help(argc, argv, commands)) {
    std::fputs(help->c_str(), stdout);
    return kExitDone;
  }
  CLI::App root("Trains one neural network on many peers that gossip: no master, no barrier.", "starling");
  root.set_version_flag("--version", "starling " STARLING_VERSION);
  root.set_help_flag();  // asked_help() has seen to it
  root.require_subcommand(0, 1);

  std::list<Parsed> all;  // the parser keeps pointers into it
  for (const Command& command : commands) describe(all.emplace_back(Parsed{&command, nullptr, {}, {}}), root);

  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return root.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    const std::string command = named_command(root);
    const std::string what = explain(error, root, command, commands), hint = help_hint(command);
    const std::string end = what.ends_with('?') ? " (" + hint.substr(2) + ")" : hint;
    return complain(command, what + end, kExitBadInput);
  }
  for (Parsed& parsed : all) {
    if (*parsed.app) return run_parsed(parsed);
  }
  const std::string group = named_command(root);
  return complain(group, "a command is missing" + help_hint(group), kExitBadInput);
}

}  // namespace starling::cli

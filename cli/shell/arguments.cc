#include "cli/shell/arguments.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <list>
#include <new>

#include "base/nearest.h"
#include "base/program.h"
#include "cli/shell/environment.h"
#include "cli/shell/help.h"
#include "cli/shell/log.h"
#include "cli/shell/output.h"

namespace starling::cli {
namespace {

std::string called(const std::string& command) {
  return command.empty() ? "starling" : "starling " + command;
}

int complain(const std::string& command, const std::string& message, int exit_code) {
  tell(Told::complaint, called(command) + ": " + message);
  return exit_code;
}

std::string help_hint(const std::string& command) { return "see `" + called(command) + " --help`"; }

// If the message begins with a flag, replaces the flag by its place.
std::string at_its_place(const Arguments& arguments, const std::string& message) {
  if (!message.starts_with("--")) return message;
  const std::string flag = message.substr(0, message.find_first_of(": "));
  return arguments.place(flag) + message.substr(flag.size());
}

// A command in the parser, and the values that the parser finds for it.
struct Parsed {
  const Command* command;
  CLI::App* app;
  std::map<std::string, std::vector<std::string>> texts;
  std::map<std::string, bool> switches;
};

void describe(Parsed& parsed, CLI::App& root) {
  const Command& command = *parsed.command;
  const std::size_t space = command.path.find(' ');
  if (space == std::string::npos) {
    parsed.app = root.add_subcommand(command.path);
  } else {
    const std::string name = command.path.substr(0, space);
    const auto groups = root.get_subcommands([&](CLI::App* app) { return app->get_name() == name; });
    CLI::App* group = groups.empty() ? root.add_subcommand(name)->require_subcommand(0, 1) : groups.front();
    parsed.app = group->add_subcommand(command.path.substr(space + 1));
  }
  // run_parsed() checks which positionals are missing.
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

// The subcommands that the parser recognized: "topology show".
std::string named_command(const CLI::App& root) {
  std::string path;
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    path += (path.empty() ? "" : " ") + app->get_name();
  }
  return path;
}

// The flag of this name, or of this earlier one; null if there is none.
const Flag* flag_named(const std::vector<Flag>& flags, const std::string& name) {
  const auto is_it = [&](const Flag& flag) { return flag.name == name || flag.formerly == name; };
  const auto at = name.empty() ? flags.end() : std::ranges::find_if(flags, is_it);
  return at == flags.end() ? nullptr : &*at;
}

// "; did you mean swarm?" if one of `names` is similar, else empty.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  constexpr std::size_t kLongestCompared = 64;
  if (word.size() > kLongestCompared) return "";
  const std::string* name = nearest(word, names);
  // A word of three letters with two edits is another word.
  if (name == nullptr || 2 * edit_distance(word, *name) > name->size()) return "";
  return "; did you mean " + *name + "?";
}

// A flag of the command that the parser did not find there: it is before the command, or behind "--".
std::string misplaced_flag(const std::vector<std::string>& words, const Command& command,
                           const std::string& flag) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word.substr(0, word.find('=')) == flag)
      return flag + " is before the command; expected `" + called(command.path) + " " + flag + "`";
  }
  return "unexpected argument '" + flag + "': words after -- are no flags";
}

std::string unknown_flag(const std::vector<Command>& commands, const std::string& path,
                         const std::vector<std::string>& words, const std::string& flag) {
  const std::string text = "unknown option " + flag;
  const Command* command = find_command(commands, path);
  std::vector<std::string> names = {"--help"};
  if (command == nullptr) {
    names.emplace_back("--version");
  } else {
    for (const Flag& known : visible_flags(*command)) names.push_back(known.name);
    if (std::ranges::find(names, flag) != names.end()) return misplaced_flag(words, *command, flag);
  }
  if (flag_named(shared_flags(), flag) != nullptr) return flag + " is for a command; expected it behind one";
  if (const std::string near = did_you_mean(flag, names); !near.empty()) return text + near;
  const auto has_flag = [&](const Command& other) {
    return std::ranges::any_of(other.flags,
                               [&](const Flag& known) { return known.name == flag && !known.hidden; });
  };
  const auto other = std::ranges::find_if(commands, has_flag);
  return other == commands.end() ? text : text + "; `starling " + other->path + "` has it";
}

std::string unknown_word(const std::vector<Command>& commands, const std::string& path,
                         const std::string& word) {
  if (find_command(commands, path) != nullptr) return "unexpected argument '" + word + "'";
  const std::string text = "unknown command '" + word + "'";
  const std::string near = did_you_mean(word, next_words(commands, path));
  if (!near.empty() || !path.empty()) return text + near;
  // The second word of a command, such as "compare".
  for (const Command& command : commands)
    if (command.path.ends_with(" " + word)) return text + "; did you mean " + command.path + "?";
  if (!did_you_mean(word, {"train", "start"}).empty())
    return text + "; `starling simulate`, `swarm` and `peer` train a model";
  return text;
}

// The parsing library's error in our words.
std::string explain(const CLI::ParseError& error, const CLI::App& root, const std::vector<std::string>& words,
                    const std::vector<Command>& commands) {
  const std::string path = named_command(root);
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = root.remaining(true);
    const std::string first = extras.empty() ? text : extras.front();
    if (first.starts_with("-")) return unknown_flag(commands, path, words, first.substr(0, first.find('=')));
    return unknown_word(commands, path, first);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && text.starts_with("-")) {
    return text.substr(0, text.find(':')) + " needs a value";
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    // Any text is a valid value, so this is a switch: "Could not convert: --json = maybe".
    const std::size_t dashes = text.find("--");
    if (dashes != std::string::npos)
      return text.substr(dashes, text.find(' ', dashes) - dashes) + " takes no value";
  }
  return text;
}

// The text that `help topology show`, `topology show help` or `swarm --help all` prints. Nothing if the
// command line does not request help, or names an unknown command, which the parser reports; an Error if
// `help` is asked about one.
Result<std::optional<std::string>> asked_help(int argc, const char* const* argv,
                                              const std::vector<Command>& commands) {
  constexpr std::optional<std::string> kNone;
  std::vector<std::string> words(argv + 1, argv + argc);
  bool asked = false, all = false;
  const bool first = !words.empty() && words.front() == "help";
  if (first) {
    asked = true;
    words.erase(words.begin());
    if (words == std::vector<std::string>{"help"}) words.clear();
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
    if (word == "help" && i + 1 == words.size() && !path.empty()) {
      asked = true;
      break;
    }
    if (find_command(commands, longer) != nullptr || !next_words(commands, longer).empty()) {
      path = longer;
    } else if (find_command(commands, path) == nullptr) {
      if (first) return Error{unknown_word(commands, path, word)};
      return kNone;
    }
  }
  if (!asked) return kNone;
  const Command* const command = find_command(commands, path);
  return std::optional(command != nullptr ? help_text(*command, all) : help_text(commands, path));
}

// The command that these words begin with; null if there is none.
const Command* command_of(const std::vector<std::string>& words, const std::vector<Command>& commands) {
  if (words.size() > 1)
    if (const Command* longer = find_command(commands, words[0] + " " + words[1])) return longer;
  return words.empty() ? nullptr : find_command(commands, words[0]);
}

// The words of a command line, and warnings about them.
struct Line {
  std::vector<std::string> words, warnings;
};

// Replaces the earlier name of a flag in line.words[i] by its present one.
void rename_flag(const Command& command, std::size_t i, Line& line) {
  std::string& word = line.words[i];
  const std::string name = word.substr(0, word.find('='));
  const auto flag = std::ranges::find(command.flags, name, &Flag::formerly);
  if (name.empty() || flag == command.flags.end()) return;
  line.warnings.push_back(name + " of `" + called(command.path) + "` is now called " + flag->name);
  word.replace(0, name.size(), flag->name);
}

// The flag of the command, or of all, that `word` gives: "--peers" or "--peers=4"; null for another word.
const Flag* flag_in(const Command& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const Flag* const own = flag_named(command.flags, name);
  return own != nullptr ? own : flag_named(shared_flags(), name);
}

// Whether words[i] is a flag that needs a value, and the next word is none, but another flag. (The parser
// would take it as the value.)
bool lacks_value(const Command& command, const std::vector<std::string>& words, std::size_t i) {
  const Flag* const flag = flag_in(command, words[i]);
  const bool waits = flag != nullptr && flag->name == words[i] && !flag->placeholder.empty();
  return waits && flag->alone.empty() && i + 1 < words.size() &&
         (words[i + 1] == "--" || flag_in(command, words[i + 1]) != nullptr);
}

// The words of the command line, with the present names of flags and the values of flags that stand alone.
Result<Line> completed(int argc, const char* const* argv, const std::vector<Command>& commands) {
  Line line{{argv + 1, argv + argc}, {}};
  std::vector<std::string>& words = line.words;
  const Command* const command = command_of(words, commands);
  if (command == nullptr) return line;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    rename_flag(*command, i, line);
    if (lacks_value(*command, words, i)) return Error{words[i] + " needs a value"};
    const auto flag = std::ranges::find(command->flags, words[i], &Flag::name);
    if (flag == command->flags.end() || flag->alone.empty()) continue;
    const bool has_value =
        i + 1 < words.size() && std::ranges::find(flag->values, words[i + 1]) != flag->values.end();
    if (!has_value) words[i] += "=" + flag->alone;
  }
  return line;
}

int run_parsed(Parsed& parsed, const std::vector<Command>& commands,
               const std::vector<std::string>& warnings) {
  const Command& command = *parsed.command;
  Arguments arguments(command.path);
  const auto complain_of = [&](const std::string& what) {
    return complain(command.path, what, kExitBadInput);
  };
  const auto missing = [&](const std::string& name) {
    return complain_of(name + " is missing; " + help_hint(command.path));
  };
  for (const Positional& positional : command.positionals) {
    std::vector<std::string>& values = parsed.texts[positional.name];
    if (values.empty() && positional.required) return missing(positional.name);
    if (!values.empty()) arguments.set(positional.name, std::move(values));
  }
  for (const auto* table : {&command.flags, &shared_flags()}) {
    for (const Flag& flag : *table) {
      std::vector<std::string>& values = parsed.texts[flag.name];
      if (flag.placeholder.empty() && parsed.switches[flag.name]) values = {"true"};
      if (values.size() > 1 && !flag.repeatable) return complain_of(flag.name + " is given more than once");
      if (values.empty() && flag.required) return missing(flag.name);
      if (!values.empty()) arguments.set(flag.name, std::move(values));
    }
  }
  if (Status set = set_log(arguments.get("--log-format"), arguments.get("--log-level")); !set)
    return complain_of(set.error().message);
  for (const std::string& warning : warnings) warn(warning);
  // A launcher has warned already.
  if (!arguments.has("--control-fd"))
    for (const std::string& problem : problems_of_environment(commands)) warn(problem);
  try {
    return command.run(arguments);
  } catch (const std::bad_alloc&) {
    return complain(command.path,
                    "this needs more memory than the machine, or the limit of `ulimit -v`, has left",
                    kExitRunFailed);
  }
}

}  // namespace

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

int refuse(const Arguments& arguments, const std::string& message) {
  return complain(arguments.command(), at_its_place(arguments, message), kExitBadInput);
}

int fail(const Arguments& arguments, const std::string& message) {
  return complain(arguments.command(), at_its_place(arguments, message), kExitRunFailed);
}

int print_out(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return kExitDone;
}

int run_command_line(int argc, const char* const* argv, const std::vector<Command>& commands) {
  const auto help = asked_help(argc, argv, commands);
  const auto refused = [](const std::string& command, const std::string& what) {
    const std::string hint = help_hint(command);
    return complain(command, what + (what.ends_with('?') ? " (" + hint + ")" : "; " + hint), kExitBadInput);
  };
  if (!help) return refused("", help.error().message);
  if (*help) return print_out(**help);
  CLI::App root("", "starling");
  root.set_version_flag("--version", "starling " + version());
  root.set_help_flag();  // asked_help() handles --help
  root.require_subcommand(0, 1);

  std::list<Parsed> all;  // the parser keeps pointers into it
  for (const Command& command : commands) describe(all.emplace_back(Parsed{&command, nullptr, {}, {}}), root);

  const auto line = completed(argc, argv, commands);
  if (!line) return refused(command_of({argv + 1, argv + argc}, commands)->path, line.error().message);
  try {
    root.parse(std::vector<std::string>(line->words.rbegin(),
                                        line->words.rend()));  // the parser takes them from the end
  } catch (const CLI::Success& version) {
    return root.exit(version);
  } catch (const CLI::ParseError& error) {
    return refused(named_command(root), explain(error, root, line->words, commands));
  }
  for (Parsed& parsed : all) {
    if (*parsed.app) return run_parsed(parsed, commands, line->warnings);
  }
  const std::string group = named_command(root);
  return complain(group, "a command is missing; " + help_hint(group), kExitBadInput);
}

}  // namespace starling::cli

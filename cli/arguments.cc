#include "cli/arguments.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <list>
#include <string_view>

namespace starling::cli {
namespace {

int complain(const std::string& command, const std::string& message, int exit_code) {
  const std::string space = command.empty() ? "" : " ";
  std::fprintf(stderr, "starling%s%s: %s\n", space.c_str(), command.c_str(), message.c_str());
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
    parsed.app = root.add_subcommand(command.path, command.summary);
  } else {
    CLI::App* group = find_or_add_group(root, command.path.substr(0, space));
    parsed.app = group->add_subcommand(command.path.substr(space + 1), command.summary);
    std::string listed;
    for (const CLI::App* sub : group->get_subcommands({})) {
      if (!listed.empty()) listed += " | ";
      listed += sub->get_name();
    }
    group->description(listed);
  }
  // Positionals come before the flags in memory and help; which of them are missing is checked by hand.
  for (const Positional& positional : command.positionals) {
    CLI::Option* option =
        parsed.app->add_option(positional.name, parsed.texts[positional.name], positional.help)->type_name("");
    if (positional.repeatable)
      option->expected(-1);
    else
      option->expected(1)->allow_extra_args(false);
  }
  for (const Flag& flag : command.flags) {
    const std::string help = flag.help + (flag.repeatable ? " (repeatable)" : "");
    CLI::Option* option;
    if (flag.placeholder.empty()) {
      option = parsed.app->add_flag(flag.name, parsed.switches[flag.name], help);
    } else {
      option = parsed.app->add_option(flag.name, parsed.texts[flag.name], help)
                   ->type_name(flag.placeholder)
                   ->expected(1)
                   ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                   ->allow_extra_args(false);
    }
    if (flag.hidden) option->group("");
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

// The library's sentence in our form.
std::string explain(const CLI::ParseError& error, const CLI::App& root, const std::string& command) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = root.remaining(true);
    const std::string first = extras.empty() ? text : extras.front();
    if (first.starts_with("-")) return first.substr(0, first.find('=')) + " is no flag of this command";
    if (command.empty()) return "\"" + first + "\" is no command";
    return "\"" + first + "\" is one argument too many";
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
  for (const Flag& flag : command.flags) {
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
  return command.run(arguments);
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

int refuse(const Arguments& arguments, const std::string& message) {
  return complain(arguments.command(), message, kExitBadInput);
}

int fail(const Arguments& arguments, const std::string& message) {
  return complain(arguments.command(), message, kExitRunFailed);
}

int run_command_line(int argc, const char* const* argv, const std::vector<Command>& commands) {
  CLI::App root("Trains one neural network on many peers that gossip: no master, no barrier.", "starling");
  root.set_version_flag("--version", "starling " STARLING_VERSION);
  root.require_subcommand(0, 1);
  root.get_formatter()->column_width(36);

  std::list<Parsed> all;  // the parser keeps pointers into it
  for (const Command& command : commands) describe(all.emplace_back(Parsed{&command, nullptr, {}, {}}), root);

  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return root.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    const std::string command = named_command(root);
    return complain(command, explain(error, root, command) + help_hint(command), kExitBadInput);
  }
  for (Parsed& parsed : all) {
    if (*parsed.app) return run_parsed(parsed);
  }
  const std::string group = named_command(root);
  return complain(group, "a command is missing" + help_hint(group), kExitBadInput);
}

}  // namespace starling::cli
